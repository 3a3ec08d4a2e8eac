-- The shipped traffic scripts and the lessons, as a user runs them.
local tap = require "tap"
local cjson = require "cjson"
local host = require "moonring.host"
local mr = require "moonring"
local scripts = require "moonring.script"

local program = tap.program()
local dir = assert(host.tempdir())
local udp = mr.stack("eth", "ip4", "udp")

-- Rows of a script's JSON by direction ("rx", "tx"), of one port.
local function rows(out)
    local by = {}
    for line in out:gmatch "[^\n]+" do
        local row = cjson.decode(line)
        by[row.port .. " " .. row.dir] = row
        by[row.dir] = by[row.dir] or row
    end
    return by
end

local function capture(name, ...)
    local path = ("%s/%s.pcap"):format(dir, name)
    local port = assert(mr.pcap { write = path })
    local pool = assert(mr.pool { packets = 64 })
    local burst = mr.burst(1)
    for _, bytes in ipairs { ... } do
        assert(pool:fill(bytes))
        burst:alloc(pool)
        port:tx():send(burst)
    end
    assert(port:close())
    assert(pool:free())
    return path
end

local function frames(path)
    local port = assert(mr.pcap { read = path })
    local burst, out = mr.burst(64), {}
    while port:rx():recv(burst, 0) > 0 do
        for _, pkt in burst:packets() do out[#out + 1] = pkt:bytes() end
    end
    burst:free()
    assert(port:close())
    os.remove(path)
    return out
end

local arp = mr.stack("eth", "arp"):fill { len = 60,
    eth_dst = "ff:ff:ff:ff:ff:ff", arp_tpa = "10.0.0.7" }
local echo = mr.stack("eth", "ip4", "icmp4"):fill { ip4_dst = "10.0.0.7",
    payload = "ping" }
local other = udp:fill { len = 60 }

tap.test("reflect answers ARP and echo, and turns the rest around", function()
    local input = capture("in", arp, echo, other)
    local output = dir .. "/out.pcap"
    local code, out, text = tap.shell(("%s run reflect pcap:%s,write=%s "
        .. "--ip 10.0.0.7 --seconds 0.5 --json"):format(program, input,
        output))
    tap.eq(code, 0, text)
    tap.eq(rows(out).rx.packets, 3)
    tap.eq(rows(out).tx.packets, 3)
    local got = frames(output)
    os.remove(input)
    tap.eq(#got, 3)
    tap.eq(got[1]:sub(21, 22), "\0\2", "ARP reply")
    tap.eq(got[1]:sub(29, 32), "\10\0\0\7", "its sender")
    tap.eq(got[2]:sub(35, 35), "\0", "echo reply")
    tap.eq(got[2]:sub(27, 30), "\10\0\0\7", "its source")
    tap.eq(got[3], other:sub(7, 12) .. other:sub(1, 6) .. other:sub(13))
end)

tap.test("forward carries frames unchanged", function()
    local input = capture("in", arp, echo, other)
    local output = dir .. "/out.pcap"
    local code, out, text = tap.shell(("%s run forward pcap:%s,name=a "
        .. "pcap:,write=%s,name=b --seconds 0.5 --json"):format(program,
        input, output))
    tap.eq(code, 0, text)
    tap.eq(rows(out)["a rx"].packets, 3)
    tap.eq(rows(out)["b tx"].packets, 3)
    local got = frames(output)
    os.remove(input)
    tap.eq(#got, 3)
    tap.eq(got[1], arp)
    tap.eq(got[3], other)
end)

tap.test("load sends its number of frames, all of them correct", function()
    local output = dir .. "/out.pcap"
    local code, out, text = tap.shell(("%s run load pcap:,write=%s "
        .. "--rate 10kpps --count 333 --size 90 --ip 1.2.3.4 --flows 3 --json")
        :format(program, output))
    tap.eq(code, 0, text)
    tap.eq(rows(out).tx.packets, 333)
    tap.eq(rows(out).tx.bytes, 333 * 90)
    local got = frames(output)
    tap.eq(#got, 333)
    for i, bytes in ipairs(got) do
        tap.eq(bytes, udp:fill { len = 90, ip4_dst = "1.2.3.4",
            udp_src = 1000 + (i - 1) % 3 }, "frame " .. i)
    end
end)

tap.test("sink ends after its number of packets", function()
    local code, out, text = tap.shell(program
        .. " run sink null:60 --count 1000 --json")
    tap.eq(code, 0, text)
    tap.ok(rows(out).rx.packets >= 1000, "a thousand")
    code, out = tap.shell(program .. " run sink null: --seconds 0.1")
    tap.eq(code, 0)
    tap.match(out, "null%d* +rx +0 +0 +0")
    code, out, text = tap.shell(program .. " run sink null:60,name=a null: "
        .. "null:60,queues=2,name=b --count 1000 --json")
    tap.eq(code, 0, text)
    local seen = rows(out)
    tap.ok(seen["a rx"].packets >= 256, "a quarter at least")
    tap.ok(seen["b rx"].packets >= 256, "and of the others as much")
end)

tap.test("load meets reflect over a socket, both ring layouts", function()
    for packed = 0, 1 do
        local sock = dir .. "/s.sock"
        local command = ("%s run reflect vhost:%s --json >%s/reflect & "
            .. "p=$!; until [ -S %s ]; do sleep 0.05; done; "
            .. "%s run load virtio:%s,packed=%d --count 2000 --rate 20kpps "
            .. "--json; s=$?; kill -INT $p; wait $p && ( exit $s )")
            :format(program, sock, dir, sock, program, sock, packed)
        local code, out, text = tap.shell(command)
        tap.eq(code, 0, text)
        tap.eq(rows(out).tx.packets, 2000)
        tap.eq(rows(out).rx.packets, 2000)
        local file = io.open(dir .. "/reflect")
        local seen = rows(file:read "*a")
        file:close()
        os.remove(dir .. "/reflect")
        tap.eq(seen.rx.packets, 2000)
        tap.eq(seen.tx.packets, 2000)
        tap.eq(seen.tx.bytes, 120000)
    end
end)

local function lesson(name)
    return ("%s run %s/%s.lua"):format(program, scripts.folder "examples",
        name)
end

tap.test("lesson 1 says hello", function()
    local code, out, text = tap.shell(lesson "01-hello")
    tap.eq(code, 0, text)
    tap.match(out, "4 packets arrived")
end)

tap.test("lesson 2 counts what load sends", function()
    local sock = dir .. "/s.sock"
    local code, out, text = tap.shell(("%s %s & p=$!; "
        .. "until [ -S %s ]; do sleep 0.05; done; "
        .. "%s run load virtio:%s --count 500 --rate 20kpps >/dev/null; "
        .. "wait $p"):format(lesson "02-count", sock, sock, program, sock))
    tap.eq(code, 0, text)
    tap.match(out, "500 packets, 30000 bytes")
end)

tap.test("lesson 3 answers pings", function()
    local sock = dir .. "/s.sock"
    local input = capture("in", arp, echo)
    local output = dir .. "/out.pcap"
    -- The guest is a forwarder between two capture files and the socket.
    local code, _, text = tap.shell(("%s %s 10.0.0.7 >/dev/null & p=$!; "
        .. "until [ -S %s ]; do sleep 0.05; done; "
        .. "%s run forward pcap:%s,write=%s virtio:%s --seconds 1.5 "
        .. ">/dev/null; s=$?; kill -INT $p; wait $p && ( exit $s )")
        :format(lesson "03-answer", sock, sock, program, input, output, sock))
    tap.eq(code, 0, text)
    os.remove(input)
    local got = frames(output)
    tap.eq(#got, 2)
    tap.eq(got[1]:sub(21, 22), "\0\2", "ARP reply")
    tap.eq(got[2]:sub(35, 35), "\0", "echo reply")
    tap.eq(got[2]:sub(27, 34), "\10\0\0\7\10\0\0\1", "addresses")
end)

tap.test("nothing is left behind", function()
    tap.eq(table.concat(host.files(dir), " "), "")
    os.remove(dir)
end)

main = tap.main
