-- Addresses: text to value and back.
local mr = require "moonring"
local tap = require "tap"

tap.test("IPv4 addresses are numbers in host order", function()
    tap.eq(mr.ip4 "10.0.0.1", 0x0a000001)
    tap.eq(mr.ip4 "255.255.255.255", 0xffffffff)
    tap.eq(mr.ip4.text(mr.ip4 "192.168.1.200"), "192.168.1.200")
    tap.eq(mr.ip4.text(mr.ip4 "10.0.0.255" + 1), "10.0.1.0")
end)

tap.test("MAC addresses are numbers of 48 bits", function()
    tap.eq(mr.mac "00:00:00:00:00:01", 1)
    tap.eq(mr.mac "ff:ff:ff:ff:ff:ff", 2 ^ 48 - 1)
    tap.eq(mr.mac.text(mr.mac "02:4D:52:00:00:01"), "02:4d:52:00:00:01")
end)

tap.test("IPv6 addresses print in their one canonical form", function()
    local forms = {
        ["::"] = "::", ["::1"] = "::1", ["fe80::1"] = "fe80::1",
        ["2001:DB8:0:0:1:0:0:1"] = "2001:db8::1:0:0:1",
        ["1:2:3:4:5:6:7:8"] = "1:2:3:4:5:6:7:8",
        ["1:0:3:4:5:6:7:8"] = "1:0:3:4:5:6:7:8",
        ["1::"] = "1::", ["::ffff:10.0.0.1"] = "::ffff:a00:1",
        ["0:0:3:0:0:0:7:8"] = "0:0:3::7:8",
    }
    for text, want in pairs(forms) do
        tap.eq(tostring(mr.ip6(text)), want, text)
    end
    tap.ok(mr.ip6 "fe80::1" == mr.ip6 "FE80:0::0:1", "equality")
    tap.ok(mr.ip6 "fe80::1" ~= mr.ip6 "fe80::2", "inequality")
end)

tap.test("what is no address raises at the caller's line", function()
    for _, text in ipairs { "", "10.0.0", "10.0.0.256", "a.b.c.d",
        "1.2.3.4.5" } do
        tap.raises(function() mr.ip4(text) end, "not an IPv4 address")
    end
    for _, text in ipairs { "", "02:00:00:00:00", "02:00:00:00:00:0g",
        "02:00:00:00:00:00:00" } do
        tap.raises(function() mr.mac(text) end, "not a MAC address")
    end
    for _, text in ipairs { "", ":", ":::", "1::2::3", "12345::", "1:2:3",
        "1:2:3:4:5:6:7:8:9", "::g", "1:2:3:4::5:6:7:8", "::1.2.3" } do
        tap.raises(function() mr.ip6(text) end, "not an IPv6 address")
    end
    tap.raises(function() mr.ip4(5) end, "a number is not an IPv4 address")
end)

main = tap.main
