-- Every file opens with its idea, and every function that a header offers has
-- a comment. A C file whose header has the same name may leave the idea to
-- that; declarations that stand together share the comment above them.
package.path = arg[0]:match "^(.*/)" .. "?.lua;" .. package.path
local lint = require "lint"

local function exists(path)
    local file = io.open(path)
    return file and file:close() or false
end

local function opens_with_comment(path)
    local first = lint.read(path)
    if path:match "%.lua$" or path:match "%.sh$" or path:match "%.txt$"
        or path:match "%.cmake$" then
        return first:match "^#!" ~= nil or first:match "^%-%-" ~= nil
            or first:match "^# " ~= nil
    end
    return first:match "^/%*" ~= nil
        or (path:match "%.c$" and exists((path:gsub("%.c$", ".h"))))
end

local files = lint.files({ "core", "lua", "scripts", "examples", "tests" },
    "c", "h", "lua", "sh", "cmake", "txt")
for _, path in ipairs(files) do
    if not opens_with_comment(path) then
        lint.complain(path, 1, "does not open with its idea")
    end
end

-- Is line i of a header inside or right below a comment, or below another
-- declaration that is?
local function commented(lines, i)
    for k = i - 1, 1, -1 do
        if lines[k]:match "%*/%s*$" then
            return true
        end
        if lines[k] == "" or lines[k]:match "^}" or lines[k]:match "^#" then
            return false
        end
    end
    return false
end

-- The first line of each prototype at the left margin.
local function prototype(line)
    return line:match "^[%a_][%w_%s%*]-%**(mr_[%w_]+)%s*%("
end

for _, path in ipairs(lint.files({ "core" }, "h")) do
    local lines = lint.lines(path)
    for i, line in ipairs(lines) do
        local name = prototype(line)
        if name and not commented(lines, i) then
            lint.complain(path, i, "%s has no comment", name)
        end
    end
end

lint.done(#files, "files")
