-- Text that people read on any screen: 80 columns, no tabs, no blanks at line
-- ends, one line end at the file's, plain names.
package.path = arg[0]:match "^(.*/)" .. "?.lua;" .. package.path
local lint = require "lint"

local COLUMNS = 80
local files = lint.files({ "core", "lua", "scripts", "examples", "tests" },
    "c", "h", "lua", "sh", "cmake", "txt")
files[#files + 1] = "CMakeLists.txt"

-- Characters, not bytes, of UTF-8 text.
local function columns(line)
    local _, more = line:gsub("[\128-\191]", "")
    return #line - more
end

for _, path in ipairs(files) do
    local text = lint.read(path)
    for i, line in ipairs(lint.lines(path)) do
        if columns(line) > COLUMNS then
            lint.complain(path, i, "%d columns", columns(line))
        end
        if line:find "\t" then
            lint.complain(path, i, "a tab")
        end
        if line:find "%s$" then
            lint.complain(path, i, "blanks at the end")
        end
        if line:find "\r" then
            lint.complain(path, i, "a carriage return")
        end
    end
    if #text == 0 or text:sub(-1) ~= "\n" or text:sub(-2) == "\n\n" then
        lint.complain(path, 1, "must end in one line end")
    end
end

lint.done(#files, "files")
