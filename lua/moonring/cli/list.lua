-- moonring list [TOPIC] [--json]: what there is, from the lists that the
-- program itself uses. One table of topics: each gives rows of cells.
local json = require "moonring.json"
local kinds = require "moonring.kinds"
local scripts = require "moonring.script"
local stats = require "moonring.stats"
local usage = require "moonring.cli.usage"

local M = {}

local function script_rows(kind)
    return function()
        local out = {}
        for _, name in ipairs(scripts.names(kind)) do
            out[#out + 1] = { name,
                scripts.title(("%s/%s.lua"):format(scripts.folder(kind),
                    name)) }
        end
        return out
    end
end

local function port_rows()
    local out = {}
    for _, kind in ipairs(kinds.list) do
        out[#out + 1] = { kind.name, kind.text }
        for _, row in ipairs(kind.options) do
            out[#out + 1] = { kind.name .. "." .. row[1], row[3] }
        end
    end
    return out
end

local function header_rows()
    local header = require "moonring.header"
    local out = {}
    for _, protocol in ipairs(require "moonring.protocol") do
        local names = {}
        for i, leaf in ipairs(header.leaves(protocol)) do
            names[i] = leaf[1]
        end
        out[#out + 1] = { protocol.name, protocol.text .. ": "
            .. table.concat(names, ", ") }
    end
    return out
end

local function counter_rows()
    local out = {}
    for i, counter in ipairs(stats.counters) do
        out[i] = { counter.name, counter.text }
    end
    return out
end

local function fault_rows()
    local out = {}
    for i, fault in ipairs(stats.faults) do
        out[i] = { fault.name, ("%s (%s; %s)"):format(fault.text, fault.rules,
            fault.broken and "stops the ring" or "skips the buffer") }
    end
    return out
end

-- { name, how to use what is listed, function that gives its rows }; the
-- short list shows those marked so.
M.topics = {
    { "scripts", "moonring run NAME", script_rows "traffic", short = true },
    { "bench", "moonring bench NAME", script_rows "bench", short = true },
    { "examples", "moonring run NAME", script_rows "examples", short = true },
    { "ports", "mr.KIND{...}, and in specs KIND:...", port_rows },
    { "headers", "mr.stack(...), p:udp4() and so on", header_rows },
    { "counters", "of each queue", counter_rows },
    { "faults", "rules that a peer can break", fault_rows },
}

local function kind_rows()
    local out = {}
    for i, kind in ipairs(kinds.list) do out[i] = { kind.name, kind.text } end
    return out
end

local function print_topic(topic, rows)
    print(("%s (%s):"):format(topic[1], topic[2]))
    for i, row in ipairs(rows) do rows[i] = { "  " .. row[1], row[2] } end
    print(stats.align(rows))
end

local function print_json(chosen)
    local out = {}
    for _, topic in ipairs(chosen) do
        local rows = {}
        for i, row in ipairs(topic[3]()) do
            rows[i] = { name = row[1], text = row[2] }
        end
        out[topic[1]] = rows
    end
    print(json.encode(json.object(out)))
end

local function choose(name)
    local out = {}
    for _, topic in ipairs(M.topics) do
        if topic[1] == name or not name then out[#out + 1] = topic end
    end
    return out
end

function M.run(args)
    local names = {}
    for i, topic in ipairs(M.topics) do names[i] = topic[1] end
    local parser = usage.parser("moonring list", "Lists what there is.")
    parser:argument("topic"):args "?":choices(names):description(
        "One list in full; without it scripts, examples and kinds of port.")
    parser:flag "--json":description "One JSON object, a member a topic."
    local parsed, wrong = usage.parse(parser, "moonring list", args)
    if not parsed then return wrong end
    if parsed.json then
        print_json(choose(parsed.topic))
        return usage.DONE
    end
    if parsed.topic then
        local topic = choose(parsed.topic)[1]
        print_topic(topic, topic[3]())
        return usage.DONE
    end
    for _, topic in ipairs(M.topics) do
        if topic.short then print_topic(topic, topic[3]()) end
    end
    print_topic({ "ports", "options: moonring list ports" }, kind_rows())
    return usage.DONE
end

return M
