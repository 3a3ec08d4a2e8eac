-- Rates carry their unit; impossible ones are errors; the pace is held.
local mr = require "moonring"
local rate = require "moonring.rate"
local tap = require "tap"

tap.test("units become packets a second", function()
    local want = { ["100pps"] = 100, ["1kpps"] = 1e3, ["1.5Mpps"] = 1.5e6,
        ["0.1 Gpps"] = 1e8, max = 0 }
    for text, pps in pairs(want) do tap.eq(rate.parse(text), pps, text) end
    tap.eq(rate.parse("512kbps", { frame = 64 }), 1000)
    tap.eq(rate.parse("512kbps L2", { frame = 64 }), 1000)
    tap.eq(rate.parse("704kbps L1", { frame = 64 }), 1000)
    tap.eq(math.floor(rate.parse("10Gbps L1", { frame = 60 })), 14880952)
end)

tap.test("what is no possible rate raises at the caller's line", function()
    for _, text in ipairs { "", "5", "5 packets", "1Tpps", "-1pps", "1kpps L1",
        "1..2kpps", "kpps", "5Gbps L3" } do
        tap.raises(function() mr.rate(text, { frame = 64 }) end,
            "is not a rate")
    end
    tap.raises(function() mr.rate "0pps" end, "not possible")
    tap.raises(function() mr.rate "9999Gpps" end, "not possible")
    tap.raises(function() mr.rate "1Gbps" end, "needs { frame = bytes }")
end)

tap.test("the pace is neither above nor far below the rate", function()
    local pace = mr.rate "100kpps"
    local start, sent = mr.now(), 0
    while mr.now() - start < 0.2 do
        tap.eq(pace:wait(10), true)
        sent = sent + 10
    end
    local took = mr.now() - start
    tap.ok(sent <= 100000 * took + 110, "no more than the rate: " .. sent)
    tap.ok(sent + pace:lost() >= 100000 * took * 0.9 - 100,
        "what lacks was counted: " .. sent)
end)

tap.test("lateness above a millisecond is lost, and counted", function()
    local pace = mr.rate "10kpps"
    pace:wait(1)
    mr.sleep(0.1)
    local start, sent = mr.now(), 0
    while mr.now() - start < 0.02 do
        pace:wait(1)
        sent = sent + 1
    end
    tap.ok(sent <= 10000 * (mr.now() - start) + 12, "no burst: " .. sent)
    tap.ok(pace:lost() > 500, "lost " .. pace:lost())
end)

main = tap.main
