-- The README's examples, run as they stand: the first script, the two
-- terminals, and every command and port name that it lists.
local tap = require "tap"
local host = require "moonring.host"

local program = tap.program()
local dir = assert(host.tempdir())

local function read(path)
    local file = assert(io.open(path))
    local text = file:read "*a"
    file:close()
    return text
end

local readme = read(assert(os.getenv "MOONRING_README", "no README given"))

-- The text of the fenced block that holds `mark`.
local function block(language, mark)
    for text in readme:gmatch("```" .. language .. "\n(.-)```") do
        if text:find(mark, 1, true) then return text end
    end
    error("no " .. language .. " block with " .. mark)
end

-- A shell line of the README that runs this program, in `dir`.
local function line(text)
    return (text:gsub("/tmp/", dir .. "/"):gsub("^moonring", program))
end

tap.test("the first script counts what it sends", function()
    local path = tap.file(block("lua", "function main"))
    local code, out, errors = tap.shell(program .. " run " .. path)
    tap.eq(code, 0, errors)
    tap.match(out, "^100000 packets\n")
end)

tap.test("two terminals talk to each other", function()
    local text = block("sh", "moonring run reflect")
    local first, second = text:match "^([^\n]+)\n([^\n]+)\n$"
    local sock = dir .. "/m.sock"
    local code, out, errors = tap.shell(("%s --json & for i in $(seq 100); "
        .. "do [ -S %s ] && break; sleep 0.1; done; %s --json; r=$?; "
        .. "kill $!; wait; (exit $r)"):format(line(first), sock, line(second)))
    tap.eq(code, 0, errors)
    tap.match(out, '"packets": 20000')
end)

tap.test("every command that is listed has a help page", function()
    local commands = 0
    for verb in readme:gmatch "| `moonring (%l+)" do
        local code, out = tap.shell(program .. " " .. verb .. " --help")
        tap.eq(code, 0, verb)
        tap.match(out, "Usage: moonring " .. verb)
        commands = commands + 1
    end
    tap.ok(commands >= 4, "a list of commands")
end)

tap.test("every port kind that is listed exists, and none is missing",
    function()
    local _, out = tap.shell(program .. " list")
    local kinds = out:match "\nports [^\n]*(\n.*)$"
    for kind in kinds:gmatch "\n  (%l+)" do
        tap.ok(readme:find("`" .. kind .. ":", 1, true)
            or readme:find("`mr." .. kind .. "`", 1, true), "port " .. kind)
    end
    for kind in readme:gmatch "\n| `(%l+):" do
        tap.ok(kinds:find("\n  " .. kind .. " ", 1, true), "port " .. kind)
    end
end)

tap.test("nothing is left behind", function()
    tap.ok(os.remove(dir), "the directory is empty")
end)

main = tap.main
