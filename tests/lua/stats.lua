-- Statistics, and that all surfaces tell the core's lists.
local mr = require "moonring"
local stats = require "moonring.stats"
local json = require "moonring.json"
local cjson = require "cjson"
local tap = require "tap"

tap.test("counters and faults are those of the core's lists", function()
    local cdef = require "moonring.cdef"
    local body = cdef:match "struct%s+mr_counters%s*(%b{})"
    local n = 0
    for name in body:gmatch "uint64_t ([%w_]+);" do
        n = n + 1
        tap.eq(stats.counters[n].name, name)
        tap.ok(#stats.counters[n].text > 0, "a text for " .. name)
    end
    tap.eq(#stats.counters, n)
    for i, fault in ipairs(stats.faults) do
        tap.ok(cdef:find("MR_FAULT_" .. fault.name, 1, true), fault.name)
        tap.ok(#fault.text > 0 and #fault.rules > 0, "text and rules")
        tap.eq(fault.name, stats.fault(i).name)
    end
end)

tap.test("rows, table and JSON tell the same numbers", function()
    local port = assert(mr.null { name = "n", frame = 60 })
    local burst = mr.burst(7)
    port:rx():recv(burst)
    port:tx():send(burst)
    local rows = mr.stats(port)
    tap.eq(#rows, 2)
    tap.eq(rows[1].dir, "rx")
    tap.eq(rows[2].dir, "tx")
    for _, row in ipairs(rows) do
        tap.eq(row.packets, 7)
        tap.eq(row.bytes, 420)
        tap.eq(row.dropped, 0)
    end
    tap.match(tostring(rows), "port +dir +queue +packets +bytes")
    tap.match(tostring(rows), "n +tx +0 +7 +420")
    local n = 0
    for line in (rows:json() .. "\n"):gmatch "(.-)\n" do
        n = n + 1
        local row = cjson.decode(line)
        tap.eq(row.port, "n")
        tap.eq(row.packets, 7)
        for _, counter in ipairs(stats.counters) do
            tap.eq(row[counter.name], rows[n][counter.name], counter.name)
        end
        tap.match(line, '"faults": {}')
    end
    tap.eq(n, 2)
    tap.eq(#mr.stats(), 2)
    assert(port:close())
    tap.eq(#mr.stats(), 0)
end)

tap.test("JSON is what another reader reads", function()
    local value = { a = { 1, 2.5, -3, 1e20 }, b = "q\"\\\n\1\127é", c = true,
        d = { { x = {} } } }
    local back = cjson.decode(json.encode(value))
    tap.eq(back.b, value.b)
    tap.eq(back.a[2], 2.5)
    tap.eq(back.a[4], 1e20)
    tap.eq(back.c, true)
    tap.eq(json.encode { 0 / 0, math.huge }, "[null, null]")
    tap.eq(json.encode(json.object {}), "{}")
    tap.eq(json.encode {}, "[]")
    tap.eq(json.encode { z = 1, a = 2 }, '{"a": 2, "z": 1}')
    tap.eq(json.encode(2 ^ 52), "4503599627370496")
end)

tap.test("columns are as wide as their widest cell", function()
    tap.eq(stats.align { { "a", "bb" }, { "ccc", "1" }, { "d", "22.5" } },
        "a    bb\nccc     1\nd    22.5")
end)

main = tap.main
