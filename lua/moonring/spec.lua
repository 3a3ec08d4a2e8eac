-- Port specs: a port in one word, for command lines.
--
--   vhost:/run/a.sock        virtio:/run/a.sock,packed=1,queue_size=1024
--   null:   null:60          pcap:in.pcap,write=out.pcap   pcap:,write=o.pcap
--   eth:net_tap0,iface=tap9  /run/a.sock (= vhost:/run/a.sock)
--
-- Before the first comma stands the kind's main option; after it NAME=VALUE
-- for any other (kinds.lua). What follows "eth:" is DPDK's, commas included.
local kinds = require "moonring.kinds"
local option = require "moonring.option"
local ports = require "moonring.port"
local err = require "moonring.error"

local M = {}

local function known_kinds()
    local out = {}
    for _, kind in ipairs(kinds.list) do
        if not kind.pair then out[#out + 1] = kind.name end
    end
    return table.concat(out, ", ")
end

local function split(text)
    local name, rest = text:match "^(%a%w*):(.*)$"
    if name then return name, rest end
    if text:match "[/.]" then return "vhost", text end
    return text, ""
end

-- Puts the value of the word `text` into options[name]. -> nil | why not
local function set(kind, options, name, text)
    local row = option.find(kind.options, name)
    local parse = row and option.types[row[2]].parse
    if not parse then
        return ("%s has no option '%s'; it has %s"):format(kind.name, name,
            option.words(kind.options))
    end
    local value = parse(text)
    if value == nil then
        return ("%s: %s=%s must be %s"):format(kind.name, name, text,
            option.types[row[2]].want)
    end
    options[name] = value
end

local function parse_options(kind, rest)
    local options = {}
    if kind.rest then
        if rest ~= "" then options[kind.main] = rest end
        return options
    end
    local first = true
    for word in (rest .. ","):gmatch "(.-)," do
        local name, value = word:match "^([%w_]+)=(.*)$"
        if first and not name then name, value = kind.main, word end
        if word ~= "" and not name then
            return nil, ("%s: '%s' is not NAME=VALUE"):format(kind.name, word)
        end
        local why = word ~= "" and set(kind, options, name, value)
        if why then return nil, why end
        first = false
    end
    return options
end

local function missing(kind, options)
    for _, row in ipairs(kind.options) do
        if row.required and options[row[1]] == nil then
            return ("%s wants a %s: %s:..."):format(kind.name, row[1],
                kind.name)
        end
    end
end

-- { kind = name, options = table } | nil, why
function M.parse(text)
    if type(text) ~= "string" or text == "" then
        return nil, "a port spec is a word such as vhost:/run/a.sock"
    end
    local name, rest = split(text)
    local kind = kinds.by_name[name]
    if not kind or kind.pair then
        return nil, ("'%s' names no kind of port; kinds are %s, and a path "
            .. "alone is vhost"):format(text, known_kinds())
    end
    local options, why = parse_options(kind, rest)
    why = why or missing(kind, options)
    if why then return nil, why end
    return { kind = name, options = options }
end

-- For argparse: checks the text and keeps it.
function M.check(text)
    local parsed, why = M.parse(text)
    return parsed and text or nil, why
end

-- Opens the port that the spec names, with `more` options added.
-- -> port | nil, text, name
function M.open(text, more)
    local parsed, why = M.parse(text)
    if not parsed then err.raise("mr.open: %s", why) end
    for name, value in pairs(more or {}) do parsed.options[name] = value end
    return ports.open(parsed.kind, parsed.options)
end

return M
