-- DPDK's testpmd as one end of a vhost-user socket, to measure beside ours: as
-- "host" it is the device (net_vhost) and forwards as it stands (io), as
-- "guest" it is the driver (net_virtio_user) and swaps MAC addresses. One core
-- forwards; the program's own thread only waits for what we say to it.
--
-- Rates are testpmd's own: what its port counted between two looks, over the
-- time that it measured between them.
--
-- An end is opened with an asking table: cpu, path (socket), layout,
-- mergeable, in_order, vector, ring, burst, memory (what memory() gave).
local mr = require "moonring"
local host_api = require "moonring.host"
local trial = require "moonring.trial"

local M = {}

local PROGRAM = "dpdk-testpmd"
-- Data bytes of a packet buffer: testpmd's default, and a frame's segment.
local ROOM = 2048
-- Bytes of a packet in a pool, everything included, rounded up.
local PACKET = 2560
-- Times that a full ring is tried again: as good as for ever, as ours do.
local RETRIES = 1000000
-- Seconds without a frame after which those that are missing are lost.
local PATIENCE = 2
-- Features as bits of the word that testpmd shows.
local bits = { layout = 34, mergeable = 15, in_order = 35 }

------------------------------------------------------------------ memory

local function meminfo(name)
    local file = io.open "/proc/meminfo"
    if not file then return 0 end
    local text = file:read "*a"
    file:close()
    return tonumber(text:match(name .. ":%s+(%d+)")) or 0
end

local function packets_needed(ring)
    return math.max(8192, 4 * ring + 4096)
end

-- Mebibytes that one program gets for rings of that size.
local function megabytes(ring)
    return 24 + math.ceil(packets_needed(ring) * PACKET / 2 ^ 20)
end

-- What kind of memory `programs` of them and a port of ours can all have:
-- "hugepages" or "small pages".
function M.memory(programs, ring)
    local free = meminfo "HugePages_Free" * meminfo "Hugepagesize" / 1024
    return free >= (programs + 1) * megabytes(ring) and "hugepages"
        or "small pages"
end

local memory_options = {
    ["hugepages"] = { "--in-memory" },
    ["small pages"] = { "--no-huge", "--no-shconf" },
}

------------------------------------------------------------------- start

local End = {}
End.__index = End

local function flag(v) return v and 1 or 0 end

local function device_of(side, ask)
    if side == "host" then
        return ("net_vhost0,iface=%s,queues=1"):format(ask.path)
    end
    return ("net_virtio_user0,path=%s,queues=1,queue_size=%d,packed_vq=%d,"
        .. "mrg_rxbuf=%d,in_order=%d,vectorized=%d"):format(ask.path, ask.ring,
            flag(ask.layout == "packed"), flag(ask.mergeable),
            flag(ask.in_order), flag(ask.vector))
end

-- Its words on the command line: a shell puts both its outputs into one and
-- becomes stdbuf, which has them written by the line and becomes testpmd.
local function command_line(side, ask)
    local words = { "-c", 'exec stdbuf -oL "$0" "$@" 2>&1', PROGRAM,
        "--lcores",
        ("0@(%s),1@%d"):format(table.concat(host_api.cpus(), ","), ask.cpu),
        "--no-pci", "--no-telemetry", "--iova-mode=va",
        "--single-file-segments", "--force-max-simd-bitwidth=512",
        "--file-prefix", ask.path:gsub("[^%w]", "") .. side,
        "-m", megabytes(ask.ring), "--vdev", device_of(side, ask),
        "--log-level=pmd.net.virtio.init:debug",
        "--log-level=lib.vhost.config:info" }
    for _, word in ipairs(memory_options[ask.memory]) do
        words[#words + 1] = word
    end
    for _, word in ipairs { "--", "-i", "--nb-cores=1", "--no-flush-rx",
        "--tx-offloads=0x8000", "--burst=" .. ask.burst,
        "--total-num-mbufs=" .. packets_needed(ask.ring) } do
        words[#words + 1] = word
    end
    if side == "guest" then
        words[#words + 1] = "--rxd=" .. ask.ring
        words[#words + 1] = "--txd=" .. ask.ring
    end
    return words
end

-- What tells that it did not do as it was told.
local refusals = { "Bad arguments", "Command not found", "^Invalid ",
    "^EAL: Error", "Cause: ", "Ambiguous command", "Packet forwarding not",
    "^Start ports failed" }

local function refused(line)
    for _, pattern in ipairs(refusals) do
        if line:find(pattern) then return true end
    end
end

-- Facts that its log tells by the way.
local function learn(self, line)
    self.path_rx = line:match "virtio: using (.-) Rx path" or self.path_rx
    self.path_tx = line:match "virtio: using (.-) Tx path" or self.path_tx
    self.features = line:match "features after negotiate = (%x+)"
        or line:match "negotiated Virtio features: 0x(%x+)" or self.features
    self.ready = self.ready or line:find "virtio is now ready" ~= nil
end

-- Reads until a line matches. -> its captures | nil, text, name
local function await(self, pattern, seconds)
    local limit = mr.now() + (seconds or 60)
    while true do
        local line, text, name = self.peer:line(math.max(0, limit - mr.now()))
        if not line then
            if name ~= "EPIPE" or not self.last then return nil, text, name end
            return nil, ("%s; it last said: %s"):format(text, self.last), name
        end
        learn(self, line)
        if line:find "%S" then self.last = line end
        if line:find(pattern) then return line:match(pattern) end
        if refused(line) then
            return nil, ("EINVAL: testpmd (%s): %s"):format(self.side, line),
                "EINVAL"
        end
    end
end

-- Says a command and waits for the line that ends its answer; without a
-- pattern for that, for the command's own echo.
-- -> captures | nil, text, name
local function command(self, text, pattern)
    local ok, why, name = self.peer:say(text)
    if not ok then return nil, why, name end
    return await(self, pattern or text:gsub("%p", "%%%0"))
end

-- The folder in /proc of the thread that forwards, or nil.
local function find_forwarder(pid)
    local folder = ("/proc/%d/task"):format(pid)
    for _, tid in ipairs(host_api.files(folder) or {}) do
        local path = folder .. "/" .. tid
        local file = io.open(path .. "/comm")
        local name = file and file:read "*l" or ""
        if file then file:close() end
        if name:find "^lcore%-worker" then return path end
    end
end

-- Starts it on one side ("host" or "guest") of the socket.
-- -> end | nil, text, name
function M.open(side, ask)
    local found, text, name = trial.find(PROGRAM)
    if not found then return nil, text, name end
    local peer
    peer, text, name = trial.peer("sh", command_line(side, ask))
    if not peer then return nil, text, name end
    local self = setmetatable({ peer = peer, side = side, ask = ask }, End)
    local ok
    ok, text, name = await(self, "^Done")
    if ok then
        ok, text, name = command(self,
            ("set burst tx delay 0 retry %d"):format(RETRIES))
    end
    if ok then
        self.forwarder = find_forwarder(peer:pid())
        return self
    end
    self:close()
    return nil, text, name
end

-- A host waits until a driver has come. -> true | nil, text, name
function End:wait_up()
    if self.ready then return true end
    local ok, text, name = await(self, "virtio is now ready", 30)
    return ok and true, text, name
end

-- What was agreed on with the other end and how that differs from what was
-- asked -> table for the report, text or nil
function End:mode()
    local ask = self.ask
    local mode = { features = self.features and "0x" .. self.features,
        rx = self.path_rx, tx = self.path_tx }
    local word = tonumber(self.features or "", 16)
    if not word then return mode, "testpmd negotiated nothing" end
    local wrong = {}
    for name, bit in pairs(bits) do
        local want = ask[name] == true or ask[name] == "packed"
        local got = math.floor(word / 2 ^ bit) % 2 == 1
        if want ~= got then
            wrong[#wrong + 1] = ("%s is %s"):format(name,
                name == "layout" and (got and "packed" or "split")
                or tostring(got))
        end
    end
    if self.side == "guest"
        and ask.vector ~= (self.path_rx:find "vectorized" ~= nil) then
        wrong[#wrong + 1] = ("DPDK chose its %s path"):format(self.path_rx)
    end
    table.sort(wrong)
    return mode, wrong[1] and "testpmd negotiated otherwise: "
        .. table.concat(wrong, ", ")
end

-------------------------------------------------------------- forwarding

-- Its counters and rates since the last look
-- -> { rx =, tx = packets so far, rate = rx packets a second } | nil, text,
-- name
function End:counters()
    local out = {}
    local ok, text, name = command(self, "show port stats 0",
        "RX%-packets:%s*(%d+)")
    out.rx = tonumber(ok)
    if ok then ok, text, name = await(self, "TX%-packets:%s*(%d+)") end
    out.tx = tonumber(ok)
    if ok then ok, text, name = await(self, "Rx%-pps:%s*(%d+)") end
    out.rate = tonumber(ok)
    if ok then ok, text, name = await(self, "^%s*(#+)$") end
    if not ok then return nil, text, name end
    return out
end

local function forward(self, mode, how)
    local ok, text, name = command(self, "set fwd " .. mode,
        "^Set (.-) packet forwarding mode")
    if ok then
        ok, text, name = command(self, "start" .. (how or ""),
            "nb forwarding cores=")
    end
    return ok and true, text, name
end

local function halt(self)
    local ok, text, name = command(self, "stop", "^Done%.")
    return ok and true, text, name
end

-- Begins / ends to measure how long others have the CPU of the forwarder.
local function begin_watch(self)
    self.begin, self.waited = mr.now(), trial.waited(self.forwarder) or 0
end

local function end_watch(self)
    return ((trial.waited(self.forwarder) or 0) - self.waited)
        / (mr.now() - self.begin)
end

-- A guest begins to serve. -> true | nil, text, name
function End:start()
    begin_watch(self)
    return forward(self, "macswap retry")
end

-- A guest ends that. -> { cpu_lost = part of the time in which others had its
-- CPU } | nil, text, name
function End:stop()
    local lost = end_watch(self)
    local ok, text, name = halt(self)
    if not ok then return nil, text, name end
    return { cpu_lost = lost }
end

-- "2048,2048,4" for a frame of 4100 bytes.
local function segments(frame)
    local out = {}
    while frame > 0 do
        out[#out + 1] = math.min(frame, ROOM)
        frame = frame - ROOM
    end
    return table.concat(out, ",")
end

-- Frames that were sent since the counters `before` and have not come back.
local function out_of(now, before)
    return now.tx - before.tx - (now.rx - before.rx)
end

-- Takes in what still circles, until all of it is back or nothing has come for
-- a while. -> frames missing | nil, text, name
local function drain(self, before)
    local ok, text, name = forward(self, "rxonly")
    if not ok then return nil, text, name end
    local left, limit
    repeat
        local now
        mr.sleep(0.01)
        now, text, name = self:counters()
        if not now then return nil, text, name end
        if left ~= out_of(now, before) then limit = mr.now() + PATIENCE end
        left = out_of(now, before)
    until left == 0 or mr.now() > limit or not mr.running()
    ok, text, name = halt(self)
    if not ok then return nil, text, name end
    return left
end

-- Looks on while frames circle -> { mpps =, host = { cpu_lost = part of the
-- time in which others had its CPU } } | nil, text, name
local function observe(self, plan)
    mr.sleep(plan.warm)
    local look, text, name = self:counters()
    if not look then return nil, text, name end
    begin_watch(self)
    mr.sleep(plan.seconds)
    look, text, name = self:counters()
    if not look then return nil, text, name end
    return { mpps = look.rate / 1e6, host = { cpu_lost = end_watch(self) } }
end

-- A host lets plan.count frames circle and measures. The guest serves already.
-- -> what observe gives and lost = frames that did not come back
-- | nil, text, name
function End:measure(plan)
    local out, before
    local ok, text, name = command(self,
        "set txpkts " .. segments(plan.frame))
    if ok then before, text, name = self:counters() end
    if not before then return nil, text, name end
    ok, text, name = forward(self, "io retry",
        (" tx_first %d"):format(plan.count / plan.burst))
    if ok then out, text, name = observe(self, plan) end
    if out then ok, text, name = halt(self) end
    if not (out and ok) then return nil, text, name end
    out.lost, text, name = drain(self, before)
    if not out.lost then return nil, text, name end
    return out
end

-- Ends the program.
function End:close()
    if self.peer:say "quit" then await(self, "^Bye", 10) end
    return self.peer:close()
end

return M
