-- Ports, whatever their kind: opened from a table of options (kinds.lua),
-- closed by port:close() or at the end of the script. Only the script itself
-- opens and closes; tasks get ports as arguments.
local ffi = require "moonring.ffi"
local err = require "moonring.error"
local handle = require "moonring.handle"
local host = require "moonring.host"
local kinds = require "moonring.kinds"
local loop = require "moonring.loop"
local option = require "moonring.option"
local pack = require "moonring.pack"
local pools = require "moonring.pool"
local queues = require "moonring.queue"
local stacks = require "moonring.stack"

local C = ffi.C
local M = {}

local Port = handle.class "port"

-- Ports that this state opened and has not closed, in order.
local owned = {}

local function adopt(ptr)
    ptr = ffi.cast("struct mr_port *", ptr)
    return setmetatable({ ptr = ptr, label = ffi.string(C.mr_port_name(ptr)),
        made = { rx = {}, tx = {} }, tasks = {} }, Port)
end

function Port:freeze() return pack.freeze_pointer(self:pointer()) end
function pack.classes.port(frozen)
    local ptr = ffi.cast("struct mr_port *", pack.thaw_pointer(frozen))
    for _, port in ipairs(owned) do
        if port.ptr == ptr then return port end
    end
    return adopt(ptr)
end
function pack.classes.queue(frozen)
    local port = pack.classes.port(frozen.port)
    return port[frozen.direction](port, frozen.index)
end

-- A pool of UDP frames for a null port that is to produce some.
local function frame_pool(bytes)
    local udp = stacks.stack("eth", "ip4", "udp")
    return pools.open { fill = udp:fill { len = bytes } }
end

local function open_one(kind, options)
    local out = ffi.new "struct mr_port *[2]"
    local rc
    if kind.pair then
        rc = C[kind.open](options, out, out + 1)
    else
        rc = C[kind.open](options, out)
    end
    if rc < 0 then return err.control(rc) end
    local a = adopt(out[0])
    owned[#owned + 1] = a
    if not kind.pair then return a end
    local b = adopt(out[1])
    owned[#owned + 1] = b
    return a, b
end

-- Opens a port of the kind -> port (a pipe: both its ports) | nil, text, name.
function M.open(name, given)
    local kind = kinds.by_name[name]
    local values = option.check("mr." .. name, kind.options, given)
    if not loop.is_control() then
        err.raise("mr.%s: a task cannot open ports; open them in main and "
            .. "pass them as arguments", name)
    end
    local ok, text, code = host.start()
    if not ok then return nil, text, code end
    local options = option.fill(ffi.new(kind.struct), values, kind.options)
    local pool
    if values.frame then
        pool, text, code = frame_pool(values.frame)
        if not pool then return nil, text, code end
        options.pool = pool:pointer()
    end
    local a, b, c = open_one(kind, options)
    if values.pool then pool = given.pool end
    if a and pool then pool.ports[a] = true end
    return a, b, c
end

-- mr.vhost{...}, mr.virtio{...}, ...: one opener a kind.
M.openers = {}
for _, kind in ipairs(kinds.list) do
    M.openers[kind.name] = function(given)
        return M.open(kind.name, given)
    end
end

local directions = { rx = C.MR_RX, tx = C.MR_TX }

local function queue_of(self, direction, index)
    index = index or 0
    local queue = self.made[direction][index]
    if queue then return queue end
    local ptr = type(index) == "number" and index >= 0 and index % 1 == 0
        and C.mr_port_queue(self:pointer(), directions[direction], index)
    if not ptr or ptr == nil then
        err.raise("port %s has no %s queue %s; it has %d", self.label,
            direction, tostring(index), C.mr_port_pairs(self:pointer()))
    end
    queue = queues.new(self, ptr, direction, index)
    self.made[direction][index] = queue
    return queue
end

-- The queue that packets arrive on / leave by; index from 0 (0).
function Port:rx(index) return queue_of(self, "rx", index) end
function Port:tx(index) return queue_of(self, "tx", index) end

function Port:name() return self.label end

function Port:kind() return ffi.string(C.mr_port_kind_name(self:pointer())) end

-- Queue pairs.
function Port:queues() return C.mr_port_pairs(self:pointer()) end

-- Whether packets can flow.
function Port:up() return C.mr_port_up(self:pointer()) == 1 end

-- Waits until packets can flow. timeout in seconds (nil = no limit).
-- -> true | nil, text, name
function Port:wait_up(timeout)
    self:pointer()
    if loop.wait_for(function() return self:up() end, timeout) then
        return true
    end
    return err.new("ETIMEDOUT", "port %s: no peer is ready%s; is the other "
        .. "end running?", self.label,
        timeout and (" after %g seconds"):format(timeout) or "")
end

-- The pool that received packets come from, or nil. The port's own ends with
-- the port.
function Port:pool()
    local ptr = C.mr_port_pool(self:pointer())
    if ptr == nil then return nil end
    local given = pools.find(ptr)
    if given then return given end
    self.lent = self.lent or pools.borrow(ptr)
    return self.lent
end

local flags = { "packed", "mergeable", "in_order", "indirect", "event_idx",
    "order_platform", "version_1", "hugetlb" }

-- What a socket port negotiated, as a table; features as 64-bit integers.
function Port:info()
    local info = ffi.new "struct mr_port_info"
    local rc = C.mr_port_info(self:pointer(), info)
    if rc < 0 then return err.control(rc) end
    local mac = {}
    for i = 0, 5 do mac[i + 1] = ("%02x"):format(info.mac[i]) end
    local out = { features = info.features,
        protocol_features = info.protocol_features,
        connected = info.connected == 1, connects = info.connects,
        header = info.header, size = info.size,
        mac = table.concat(mac, ":"),
        variant = { rx = ffi.string(info.variant[0]),
            tx = ffi.string(info.variant[1]) } }
    for _, flag in ipairs(flags) do out[flag] = info[flag] == 1 end
    return out
end

-- One row of counters a queue (stats.lua), rx before tx.
function Port:stats()
    local out = {}
    for _, direction in ipairs { "rx", "tx" } do
        for i = 0, self:queues() - 1 do
            out[#out + 1] = queue_of(self, direction, i):stats()
        end
    end
    return out
end

-- The state of all rings as text.
function Port:dump()
    local out = {}
    for i = 0, self:queues() - 1 do
        out[#out + 1] = self:rx(i):dump()
        out[#out + 1] = self:tx(i):dump()
    end
    return table.concat(out, "\n")
end

local function forget(self)
    for _, list in pairs(self.made) do
        for _, queue in pairs(list) do queue.ptr = nil end
    end
    for i, port in ipairs(owned) do
        if port == self then table.remove(owned, i) end
    end
    if self.lent then self.lent.ptr = nil end
    self.ptr = nil
end

-- Stops the queues, ends the session and frees the port. EBUSY while a task
-- has it, or another port its pool. -> true | nil, text, name. Closing twice is
-- allowed.
function Port:close()
    if not self.ptr then return true end
    if not loop.is_control() then
        err.raise("port %s: a task cannot close a port", self.label)
    end
    for task in pairs(self.tasks) do
        if task:state() == "running" then
            return err.new("EBUSY", "port %s is in use by task %s; stop the "
                .. "task first", self.label, task.label)
        end
    end
    if self.lent then
        local ok, text, name = self.lent:idle()
        if not ok then return nil, text, name end
    end
    for _, list in pairs(self.made) do
        for _, queue in pairs(list) do queue:release() end
    end
    local rc = C.mr_port_close(self.ptr)
    if rc < 0 then return err.control(rc) end
    forget(self)
    return true
end

-- Closes what this state opened, last first. -> list of texts of what failed
function M.close_all()
    local failed = {}
    for i = #owned, 1, -1 do
        local ok, text = owned[i]:close()
        if not ok then failed[#failed + 1] = text end
    end
    return failed
end

-- Counters of all ports of this script.
function M.stats_all()
    local out = {}
    for _, port in ipairs(owned) do
        for _, row in ipairs(port:stats()) do out[#out + 1] = row end
    end
    return out
end

return M
