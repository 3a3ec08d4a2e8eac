-- Port specs.
local mr = require "moonring"
local spec = require "moonring.spec"
local tap = require "tap"

local function flat(text)
    local parsed, why = spec.parse(text)
    if not parsed then return why end
    local out = {}
    for name, v in pairs(parsed.options) do
        out[#out + 1] = name .. "=" .. tostring(v)
    end
    table.sort(out)
    return parsed.kind .. " " .. table.concat(out, " ")
end

tap.test("specs become kind and options", function()
    local want = {
        ["vhost:/a/b.sock"] = "vhost path=/a/b.sock",
        ["/a/b.sock"] = "vhost path=/a/b.sock",
        ["./b,queues=2"] = "vhost path=./b queues=2",
        ["virtio:/s,packed=1,mrg_rxbuf=0,in_order=1,queue_size=256,queues=1,"
            .. "server=1"] = "virtio in_order=true mrg_rxbuf=false "
            .. "packed=true path=/s queue_size=256 queues=1 server=true",
        ["vhost:path=/a=b"] = "vhost path=/a=b",
        ["vhost:/s,mode=0660"] = "vhost mode=0660 path=/s",
        ["null:"] = "null ", ["null"] = "null ",
        ["null:60,queues=2"] = "null frame=60 queues=2",
        ["pcap:in.pcap"] = "pcap read=in.pcap",
        ["pcap:,write=out.pcap,loops=forever"] =
            "pcap loops=forever write=out.pcap",
        ["eth:net_tap0,iface=t0,mac=fixed"] =
            "eth devargs=net_tap0,iface=t0,mac=fixed",
    }
    for text, result in pairs(want) do tap.eq(flat(text), result, text) end
end)

tap.test("what is wrong is told with what is known", function()
    local want = {
        ["tcp:80"] = "no kind of port; kinds are vhost, virtio, null",
        ["pipe:"] = "no kind of port",
        ["vhost:"] = "vhost wants a path",
        ["vhost"] = "vhost wants a path",
        ["eth:"] = "eth wants a devargs",
        ["vhost:/a,foo=1"] = "no option 'foo'; it has path, name",
        ["vhost:/a,packed"] = "'packed' is not NAME=VALUE",
        ["vhost:/a,packed=maybe"] = "packed=maybe must be true or false",
        ["vhost:/a,queues=x"] = "queues=x must be a whole number",
        ["vhost:/a,pool=x"] = "no option 'pool'",
        ["null:big"] = "frame=big must be",
        [""] = "a port spec is a word",
    }
    for text, why in pairs(want) do
        local parsed, got = spec.parse(text)
        tap.eq(parsed, nil, text)
        tap.ok(got:find(why, 1, true), text .. ": " .. got)
    end
    tap.eq(spec.parse(nil), nil)
end)

tap.test("open opens what the spec names", function()
    local port = assert(mr.open("null:64", { name = "x" }))
    tap.eq(port:name(), "x")
    tap.eq(port:kind(), "null")
    assert(port:close())
    tap.raises(function() mr.open "foo:" end, "no kind of port")
end)

main = tap.main
