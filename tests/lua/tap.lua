-- A small runner. A test file declares tests at its top level and ends with
-- `main = tap.main`; output is TAP, the exit status 1 when one failed.
local M = {}

local tests = {}

-- Declares a test; its name tells the rule that it proves.
function M.test(name, fn)
    tests[#tests + 1] = { name = name, fn = fn }
end

local function show(v)
    if type(v) == "string" then return ("%q"):format(v) end
    return tostring(v)
end

function M.ok(v, what)
    if not v then error((what or "a condition") .. " does not hold", 2) end
    return v
end

function M.eq(got, want, what)
    if got ~= want then
        error(("%s: got %s, want %s"):format(what or "value", show(got),
            show(want)), 2)
    end
end

function M.match(text, pattern)
    if type(text) ~= "string" or not text:match(pattern) then
        error(("%s does not match %s"):format(show(text), show(pattern)), 2)
    end
end

-- fn must raise a text that matches, pointing at this file unless `anywhere`.
function M.raises(fn, pattern, anywhere)
    local ok, text = pcall(fn)
    if ok then error("no error was raised", 2) end
    text = tostring(text)
    local here = debug.getinfo(2, "S").short_src
    if not text:match(pattern) then
        error(("error %s does not match %s"):format(show(text),
            show(pattern)), 2)
    end
    if not anywhere and text:sub(1, #here) ~= here then
        error(("error %s does not point at %s"):format(show(text), here), 2)
    end
end

-- A control call's failure: nil, "NAME: text", "NAME".
function M.fails(name, pattern, value, text, code)
    if value ~= nil or code ~= name or type(text) ~= "string"
        or text:sub(1, #name + 2) ~= name .. ": " or not text:match(pattern)
    then
        error(("want nil, %s and a text like %s; got %s, %s, %s"):format(name,
            show(pattern), show(value), show(text), show(code)), 2)
    end
end

-- This program, to be run by a shell.
function M.program()
    local pipe = io.popen "readlink /proc/$PPID/exe"
    local path = pipe:read "*l"
    pipe:close()
    return path
end

-- Runs a shell command. -> exit status, stdout, stderr
function M.shell(command)
    local err = os.tmpname()
    local pipe = io.popen(("{ %s ; } 2>%s; printf '\n%%s' $?")
        :format(command, err))
    local out = pipe:read "*a"
    pipe:close()
    local file = io.open(err)
    local errors = file:read "*a"
    file:close()
    os.remove(err)
    local text, status = out:match "^(.*)\n(%d+)$"
    return tonumber(status), text, errors
end

-- A file with that text, removed at the end of the tests.
local files = {}

function M.file(text)
    local path = os.tmpname()
    local file = io.open(path, "w")
    file:write(text)
    file:close()
    files[#files + 1] = path
    return path
end

function M.main()
    local failed = 0
    print("1.." .. #tests)
    for i, test in ipairs(tests) do
        local ok, text = xpcall(test.fn, function(message)
            return debug.traceback(tostring(message), 2)
        end)
        print(("%s %d - %s"):format(ok and "ok" or "not ok", i, test.name))
        if not ok then
            failed = failed + 1
            print("# " .. text:gsub("\n", "\n# "))
        end
    end
    for _, path in ipairs(files) do os.remove(path) end
    return failed == 0 and 0 or 1
end

return M
