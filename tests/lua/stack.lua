-- Stacks: frames made by fill are what the core's own code calls correct.
local mr = require "moonring"
local tap = require "tap"

local stacks = {
    { "eth", "ip4", "udp" }, { "eth", "ip4", "tcp" }, { "eth", "ip4", "icmp4" },
    { "eth", "ip6", "udp" }, { "eth", "ip6", "tcp" }, { "eth", "ip6", "icmp6" },
    { "eth", "vlan", "ip4", "udp" }, { "eth", "vlan", "vlan", "ip6", "tcp" },
}

tap.test("the core finds nothing to change in fill's checksums", function()
    for _, names in ipairs(stacks) do
        for _, payload in ipairs { "", "odd", "even", ("x"):rep(999) } do
            local bytes = mr.stack(unpack(names)):fill { payload = payload }
            local pool = assert(mr.pool { packets = 64, fill = bytes })
            local burst = mr.burst(1)
            tap.eq(burst:alloc(pool), 1)
            burst:checksum()
            tap.ok(burst[0]:bytes() == bytes, table.concat(names, "/")
                .. " with " .. #payload .. " bytes")
            burst:free()
            assert(pool:free())
        end
    end
end)

tap.test("fill sets types and lengths", function()
    local stack = mr.stack("eth", "ip4", "udp")
    local pool = assert(mr.pool { fill = stack:fill { len = 100,
        ip4_dst = "1.2.3.4", udp_dst = 53, eth_src = "02:00:00:00:00:09" } })
    local burst = mr.burst(1)
    burst:alloc(pool)
    local view = stack:view(burst[0])
    tap.eq(burst[0]:len(), 100)
    tap.eq(view.eth:type(), 0x0800)
    tap.eq(view.eth:src(), mr.mac "02:00:00:00:00:09")
    tap.eq(view.ip4:len(), 86)
    tap.eq(view.ip4:protocol(), 17)
    tap.eq(view.ip4:dst(), mr.ip4 "1.2.3.4")
    tap.eq(view.udp:len(), 66)
    tap.eq(view.udp:dst(), 53)
end)

tap.test("what is given is not overruled", function()
    local bytes = mr.stack("eth", "ip4", "udp"):fill { eth_type = 0x1234,
        ip4_len = 5, ip4_checksum = 6, udp_checksum = 7 }
    tap.eq(bytes:sub(13, 14), "\x12\x34")
    tap.eq(bytes:sub(17, 18), "\0\5")
    tap.eq(bytes:sub(25, 26), "\0\6")
    tap.eq(bytes:sub(41, 42), "\0\7")
end)

tap.test("misuse of stacks raises at the caller's line", function()
    tap.raises(function() mr.stack "ipx" end, "no header 'ipx'; known are arp")
    tap.raises(function() mr.stack() end, "wants names")
    local stack = mr.stack("eth", "ip4")
    tap.raises(function() stack:fill { ip4_port = 1 } end,
        "unknown field 'ip4_port' of eth/ip4; known are len")
    tap.raises(function() stack:fill { len = 20 } end, "from 34")
    tap.raises(function() stack:fill { ip4_ttl = {} } end, "wants a number")
    tap.raises(function() stack:fill { ip4_dst = "x" } end, "not an IPv4")
    tap.raises(function() stack:fill "x" end, "wants a table")
end)

tap.test("the same names give the same stack", function()
    tap.ok(mr.stack("eth", "ip4") == mr.stack("eth", "ip4"), "identity")
end)

main = tap.main
