-- Which room may see which library (ARCHITECTURE section 3): rte_* in
-- mem/packet*, port/ and run/; uv.h in loop/ and run/main; lua.h in run/. And
-- base/, mem/, ring/, burst/ never log.
package.path = arg[0]:match "^(.*/)" .. "?.lua;" .. package.path
local lint = require "lint"

-- Packets in memory are DPDK's: what reads or writes their headers stands in
-- mem/ too.
local fences = {
    { "%f[%w_]rte_%w", { "^core/mem/", "^core/port/", "^core/run/" }, "rte_*" },
    { '#%s*include%s*[<"]rte_', { "^core/mem/packet", "^core/port/",
        "^core/run/" }, "a DPDK header" },
    { '#%s*include%s*[<"]uv', { "^core/loop/", "^core/run/main" }, "uv.h" },
    { "%f[%w_]uv_%w", { "^core/loop/", "^core/run/main" }, "uv_*" },
    { '#%s*include%s*[<"]lua', { "^core/run/" }, "lua.h" },
    { '#%s*include%s*[<"]lauxlib', { "^core/run/" }, "lauxlib.h" },
    { "%f[%w_]lua_%w", { "^core/run/" }, "lua_*" },
    { "%f[%w_]pcap_%w", { "^core/port/" }, "pcap_*" },
    { "%f[%w_]mr_log", { "^core/base/log", "^core/port/", "^core/proto/",
        "^core/loop/", "^core/run/" }, "the log" },
}

local function allowed(path, places)
    for _, place in ipairs(places) do
        if path:match(place) then
            return true
        end
    end
    return false
end

-- Code without comments and strings, line by line.
local function code(path)
    local text = lint.read(path)
    text = text:gsub("/%*.-%*/", function(comment)
        return (comment:gsub("[^\n]", " "))
    end)
    local lines = {}
    for line in (text .. "\n"):gmatch "(.-)\n" do
        if not line:match "^%s*#%s*include" then
            line = line:gsub('"[^"]*"', '""')
        end
        lines[#lines + 1] = line
    end
    return lines
end

local files = lint.files({ "core" }, "c", "h")
for _, path in ipairs(files) do
    for i, line in ipairs(code(path)) do
        for _, fence in ipairs(fences) do
            if line:find(fence[1]) and not allowed(path, fence[2]) then
                lint.complain(path, i, "%s does not belong here", fence[3])
            end
        end
    end
end

lint.done(#files, "files")
