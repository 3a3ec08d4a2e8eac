-- The command line. One table of verbs; each verb's module has run(args),
-- which returns the exit status: 0 done, 1 failed, 2 wrong usage. What failed
-- is told on stderr in one line: object, cause, cure.
local cpu = require "moonring.cpu"
local usage = require "moonring.cli.usage"

local M = {}

M.verbs = {
    { name = "run", module = "moonring.cli.run", args = "SCRIPT [ARGS]",
        text = "run a traffic script: a file, or one that ships" },
    { name = "bench", module = "moonring.cli.bench", args = "NAME [ARGS]",
        text = "run a benchmark" },
    { name = "doctor", module = "moonring.cli.doctor", args = "",
        text = "say what this machine offers and how to mend what it lacks" },
    { name = "list", module = "moonring.cli.list", args = "[TOPIC]",
        text = "list scripts, examples, ports, headers, counters, faults" },
}

local function help_text()
    local width = 0
    for _, verb in ipairs(M.verbs) do
        width = math.max(width, #verb.name + #verb.args + 1)
    end
    local out = {
        "Usage: moonring [--help] [--version] [--cpu LEVEL] COMMAND [ARGS]", "",
        "Scripted packet input and output over both ends of a virtqueue.", "",
        "Commands:" }
    for _, verb in ipairs(M.verbs) do
        local left = verb.name .. " " .. verb.args
        out[#out + 1] = ("   %-" .. width .. "s  %s"):format(left, verb.text)
    end
    out[#out + 1] = ""
    out[#out + 1] = "--cpu LEVEL caps the instructions that rings use ("
        .. table.concat(cpu.names(), ", ") .. "),"
    out[#out + 1] = "in place of $" .. cpu.VARIABLE .. "."
    out[#out + 1] = ""
    out[#out + 1] = "'moonring COMMAND --help' tells more about each."
    return table.concat(out, "\n")
end

local function names()
    local out = {}
    for i, verb in ipairs(M.verbs) do out[i] = verb.name end
    return table.concat(out, ", ")
end

local function find(name)
    for _, verb in ipairs(M.verbs) do
        if verb.name == name then return verb end
    end
end

-- Takes --cpu LEVEL or --cpu=LEVEL off the front. -> the number of words that
-- it took, or nil and what is wrong
local function cap_cpu(args)
    local level = args[1] and args[1]:match "^%-%-cpu=(.*)$"
    local words = level and 1 or 0
    if args[1] == "--cpu" then level, words = args[2], 2 end
    if words == 0 then return 0 end
    if not level then return nil, "--cpu needs a level" end
    local ok, text = cpu.cap(level)
    if not ok then return nil, text end
    return words
end

-- args: the words of the command line, program name at 0. -> exit status
function M.main(args)
    local skip, wrong = cap_cpu(args)
    if not skip then return usage.wrong("moonring", wrong) end
    local first = args[skip + 1]
    if not first then
        io.stderr:write(help_text(), "\n")
        return usage.WRONG
    end
    if first == "--help" or first == "-h" then
        print(help_text())
        return usage.DONE
    end
    if first == "--version" then
        usage.print_version()
        return usage.DONE
    end
    local verb = find(first)
    if not verb then
        return usage.wrong("moonring", ("unknown command '%s'; commands are "
            .. "%s"):format(first, names()))
    end
    local rest = {}
    for i = skip + 2, #args do rest[#rest + 1] = args[i] end
    return require(verb.module).run(rest, verb)
end

return M
