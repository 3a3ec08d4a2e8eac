-- The command line: exit codes 0, 1, 2; one line on stderr; clean ends.
local tap = require "tap"
local cjson = require "cjson"
local verbs = require("moonring.cli").verbs
local scripts = require "moonring.script"

local program = tap.program()

local function run(words)
    return tap.shell(program .. " " .. words)
end

local function one_line(text)
    local _, lines = text:gsub("\n", "")
    return lines == 1
end

-- Status and a line of stderr that matches.
local function complains(words, status, pattern)
    local code, _, text = run(words)
    tap.eq(code, status, words)
    tap.match(text, pattern)
    tap.ok(one_line(text), words .. ": one line, not " .. text)
end

tap.test("--help and --version work everywhere, on stdout, with 0", function()
    local before = { "" }
    for _, verb in ipairs(verbs) do before[#before + 1] = verb.name end
    for _, name in ipairs(scripts.names "traffic") do
        before[#before + 1] = "run " .. name
    end
    for _, name in ipairs(scripts.names "bench") do
        before[#before + 1] = "bench " .. name
    end
    for _, words in ipairs(before) do
        local code, out, text = run(words .. " --help")
        tap.eq(code, 0, words)
        tap.match(out, "Usage: moonring")
        tap.eq(text, "")
        code, out = run(words .. " --version")
        tap.eq(code, 0, words)
        tap.match(out, "^moonring %d+%.%d+%.%d+\n$")
    end
end)

tap.test("--help lists every verb", function()
    local _, out = run "--help"
    for _, verb in ipairs(verbs) do
        tap.ok(out:find("   " .. verb.name, 1, true), verb.name)
    end
end)

tap.test("--cpu and $MR_CPU_LEVEL cap the CPU level", function()
    for _, prefix in ipairs { "MR_CPU_LEVEL=baseline %s", "%s --cpu baseline",
        "%s --cpu=baseline", "MR_CPU_LEVEL=avx512 %s --cpu baseline" } do
        local _, out = tap.shell(prefix:format(program) .. " doctor")
        tap.match(out, "rings use baseline\n")
    end
    local code, _, text = tap.shell("MR_CPU_LEVEL=mmx " .. program .. " list")
    tap.eq(code, 0)
    tap.match(text, "MR_CPU_LEVEL is 'mmx'")
end)

tap.test("wrong usage is 2, in one line that says where to look", function()
    complains("frobnicate", 2, "unknown command 'frobnicate'; commands are "
        .. "run.*see 'moonring %-%-help'")
    complains("--frobnicate", 2, "unknown command")
    complains("run", 2, "missing argument 'script'")
    complains("run --bogus reflect", 2, "unknown option '%-%-bogus'")
    complains("run no-such-script", 2, "no script 'no%-such%-script'")
    complains("run /no/such/script.lua", 2, "ENOENT: /no/such/script.lua")
    complains("run reflect", 2, "missing argument 'port'; see 'moonring run "
        .. "reflect %-%-help'")
    complains("run reflect tcp:1", 2, "no kind of port")
    complains("run reflect vhost:/a,x=1", 2, "no option 'x'")
    complains("run reflect null: --ip 10.0.0", 2, "not an address")
    complains("run load null: --rate fast", 2, "not a rate")
    complains("run load null: --size 5", 2, "a UDP frame has 42")
    complains("run load null: --size 60.5", 2, "not a whole number")
    complains("run sink null:60 --core 0.5", 2, "not a whole number")
    complains("run sink null:10", 2, "42%.%.2048")
    complains("run sink pcap:x,loops=-1", 2, "forever")
    complains("list nonsense", 2, "must be one of")
    complains("doctor extra", 2, "too many arguments")
    complains("bench pvp --ring 7", 2, "power of two")
    complains("bench pvp --cores x", 2, "not two CPUs")
    complains("--cpu", 2, "needs a level")
    complains("--cpu mmx list", 2, "CPU level 'mmx': baseline, avx2 or avx512")
    local code, _, text = run ""
    tap.eq(code, 2)
    tap.match(text, "Usage: moonring")
end)

tap.test("what fails is 1, in one line: object, cause, cure", function()
    complains("run sink vhost:/no/such/folder/a.sock", 1,
        "^moonring run sink: E[A-Z]+: .*/no/such/folder/a.sock")
    complains("run sink pcap:/no/such/file", 1, "ENOENT: .*/no/such/file")
    complains("run sink null:60 --core 1000", 1, "EINVAL: task sink: core")
end)

local function script(text)
    return "run " .. tap.file(text)
end

tap.test("main's outcome is the exit status", function()
    local want = { [""] = 0, ["return true"] = 0, ["return 5"] = 5,
        ["os.exit(4)"] = 4, ["os.exit()"] = 0, ["os.exit(false)"] = 1,
        ["return nil"] = 0, ["return 256"] = 1, ["return -1"] = 1,
        ["return 0/0"] = 1, ["return 0.5"] = 1, ["os.exit(1e300)"] = 1,
        ["os.exit 'x'"] = 1 }
    for body, status in pairs(want) do
        tap.eq((run(script("function main() " .. body .. " end"))), status,
            body)
    end
    complains(script "function main() return nil, 'too bad' end", 1,
        "too bad")
    complains(script "function main() return nil, 'not so', 2 end", 2,
        "not so; see")
    complains(script "function main() return false end", 1, "main failed")
end)

tap.test("a script's error has a traceback of the script alone", function()
    local code, _, text = run(script "function main()\n error 'boom'\nend")
    tap.eq(code, 1)
    tap.match(text, ":2: boom\nstack traceback:\n.*in function 'main'\n$")
    code, _, text = run(script "nonsense here")
    tap.eq(code, 1)
    tap.match(text, ":1:")
    complains(script "local x = 1", 1, "has no function main")
end)

tap.test("a control call's error has a traceback only when asked", function()
    local words = tap.file [[
        local mr = require "moonring"
        function main() assert(mr.pcap { read = "/no/file" }) end]]
    complains("run " .. words, 1, "ENOENT")
    local code, _, text = run("run --traceback " .. words)
    tap.eq(code, 1)
    tap.match(text, "ENOENT.*stack traceback:")
end)

tap.test("configure's arguments reach main", function()
    local code, out = run(script [[
        function configure(cli)
            cli:argument "x"
            cli:option "--y":convert(tonumber)
        end
        function main(args) print(args.x, args.y + 1) end]] .. " a --y 4")
    tap.eq(code, 0)
    tap.eq(out, "a\t5\n")
end)

tap.test("a failed task fails the script, with the task's traceback",
    function()
        local code, _, text = run(script [[
            local mr = require "moonring"
            function main() assert(mr.task { run = "work" }) mr.sleep(0.2) end
            function work() error "deep" end]])
        tap.eq(code, 1)
        tap.match(text, "task work failed: .*:3: deep\nstack traceback")
    end)

tap.test("a task that never ends is named with its line; the program ends",
    function()
        local code, _, text = run(script [[
            local mr = require "moonring"
            function main() assert(mr.task { run = "hang" }) mr.sleep(0.1) end
            function hang() while true do end end
            jit.off(hang)]])
        tap.eq(code, 1)
        tap.match(text, "task hang does not end: it is at .*:3")
        code, _, text = run(script [[
            local mr = require "moonring"
            function main() assert(mr.task { run = "hang" }) mr.sleep(0.1) end
            function hang() while true do end end]])
        tap.eq(code, 1)
        tap.match(text, "task hang does not end: it is ")
    end)

tap.test("SIGINT ends a script well: 0, and the socket file is gone",
    function()
        local path = os.tmpname()
        os.remove(path)
        local words = ("%s run sink vhost:%s --json & p=$!; "
            .. "until [ -S %s ]; do sleep 0.05; done; "
            .. "kill -INT $p; wait $p; s=$?; [ ! -e %s ] || s=77; "
            .. "( exit $s )"):format(program, path, path, path)
        -- A shell's background jobs ignore SIGINT; a program that installs a
        -- handler does not.
        local code, out = tap.shell(words)
        tap.eq(code, 0)
        tap.match(out, '"dir": "rx"')
    end)

tap.test("SIGHUP ends a script well, unless it is to be ignored", function()
    for prefix, want in pairs { [""] = "0", ["trap '' HUP;"] = "0 hung on" } do
        local path = os.tmpname()
        os.remove(path)
        local _, out = tap.shell(("%s %s run sink vhost:%s --seconds 1 & p=$!; "
            .. "until [ -S %s ]; do sleep 0.05; done; kill -HUP $p; "
            .. "sleep 0.3; h=; [ -e %s ] && h=' hung on'; wait $p; "
            .. "echo status $?$h"):format(prefix, program, path, path, path))
        tap.match(out, "status " .. want .. "\n$")
    end
end)

tap.test("output that cannot be written is a failure", function()
    for _, words in ipairs { "list", "--help", "run sink null:60 --count 1" } do
        local code, _, text = tap.shell(program .. " " .. words
            .. " > /dev/full")
        tap.eq(code, 1, words)
        tap.match(text, "standard output cannot be written")
        code, _, text = tap.shell(program .. " " .. words .. " >&-")
        tap.eq(code, 1, words)
        tap.match(text, "standard output cannot be written")
    end
    tap.eq((tap.shell(program .. " run sink null:60 --count 1 <&- 2>&-")), 0)
end)

tap.test("a file that may not grow is an error, not the end", function()
    local path = os.tmpname()
    local code, out = tap.shell(("ulimit -f 1; %s run forward null:60 "
        .. "pcap:,write=%s --seconds 0.1 --json"):format(program, path))
    os.remove(path)
    tap.eq(code, 0)
    tap.match(out, '"dir": "tx", "down": 0, "dropped": [1-9][^\n]*"pcap0"')
end)

tap.test("doctor finds, prices and mends; JSON tells the same", function()
    local code, out = run "doctor"
    tap.eq(code, 0)
    local list
    code, list = run "doctor --json"
    tap.eq(code, 0)
    list = cjson.decode(list)
    tap.eq(#list, #require("moonring.cli.doctor").checks)
    for _, finding in ipairs(list) do
        tap.ok(out:find(finding.name, 1, true), finding.name)
        tap.ok(#finding.found > 0, "what was found")
        if finding.state ~= "ok" then
            tap.eq(finding.state, "warn")
            tap.ok(#finding.cost > 0 and #finding.cure > 0, finding.name)
        end
    end
end)

tap.test("list names everything that ships, in text and JSON", function()
    local code, out = run "list"
    tap.eq(code, 0)
    local list
    code, list = run "list --json"
    tap.eq(code, 0)
    list = cjson.decode(list)
    for _, topic in ipairs { "scripts", "bench", "examples" } do
        tap.ok(#list[topic] > 0, topic)
        for _, row in ipairs(list[topic]) do
            tap.ok(out:find(row.name, 1, true), row.name)
            tap.ok(#row.text > 0, "a text for " .. row.name)
        end
    end
    for _, topic in ipairs(require("moonring.cli.list").topics) do
        code, out = run("list " .. topic[1])
        tap.eq(code, 0)
        tap.ok(#list[topic[1]] > 0, topic[1])
        tap.ok(out:find(list[topic[1]][1].name, 1, true), topic[1])
    end
end)

tap.test("help, list and doctor start no DPDK", function()
    for _, words in ipairs { "--help", "list", "doctor", "run load --help" } do
        local _, out, text = tap.shell("MOONRING_EAL_LOG=debug " .. program
            .. " " .. words)
        tap.ok(not (out .. text):find "EAL:", words)
    end
    local _, _, text = tap.shell("MOONRING_EAL_LOG=debug " .. program
        .. " run sink null: --seconds 0")
    tap.match(text, "EAL:")
end)

tap.test("the control thread keeps the CPUs that it was allowed", function()
    local code, out = run(script [[
        local mr = require "moonring"
        local host = require "moonring.host"
        function main()
            local before = #host.cpus()
            assert(mr.null {})
            print(before == #host.cpus())
            local task = assert(mr.task { run = "cpus",
                core = host.cpus()[1] })
            assert(task:wait(10))
            print(task:result())
        end
        function cpus() return #host.cpus() end]]
        :gsub("function cpus%(%)", "%0 local host = require 'moonring.host'"))
    tap.eq(code, 0)
    tap.eq(out, "true\n1\n")
end)

main = tap.main
