-- Pools: where packets come from. A pool may carry a template that every
-- fresh packet starts as a copy of.
local ffi = require "moonring.ffi"
local err = require "moonring.error"
local handle = require "moonring.handle"
local option = require "moonring.option"
local pack = require "moonring.pack"
local host = require "moonring.host"

local C = ffi.C
local M = {}

local Pool = handle.class "pool"
Pool.is_pool = true

M.options = {
    { "packets", "count", "packets in it (8192)" },
    { "size", "count", "data bytes of one buffer, 64..32768 (2048)" },
    { "cache", "count", "packets each task keeps at hand, 1..512 (256)" },
    { "fill", "bytes", "what every fresh packet holds, e.g. stack:fill{}",
        lua = true },
}

-- Pools that this state made and has not freed.
local owned = {}

local function adopt(ptr)
    ptr = ffi.cast("struct mr_pool *", ptr)
    return setmetatable({ ptr = ptr, tasks = {}, ports = {},
        label = tostring(ptr):match "0x%x+" or "?" }, Pool)
end

function Pool:freeze()
    self.sent = true
    return pack.freeze_pointer(self:pointer())
end

-- The handle of a pool that this state owns, or nil.
function M.find(ptr)
    for pool in pairs(owned) do
        if pool.ptr == ffi.cast("struct mr_pool *", ptr) then return pool end
    end
end

function pack.classes.pool(frozen)
    local ptr = pack.thaw_pointer(frozen)
    return M.find(ptr) or adopt(ptr)
end

-- mr.pool { packets =, size =, cache =, fill = } -> pool | nil, text, name.
-- It lives until pool:free() or the end of the script or task that made it.
function M.open(given)
    local values = option.check("mr.pool", M.options, given)
    local options = option.fill(ffi.new "struct mr_pool_options", values,
        M.options)
    local ok, text, name = host.start()
    if not ok then return nil, text, name end
    local out = ffi.new "struct mr_pool *[1]"
    local rc = C.mr_pool_create(options, out)
    if rc < 0 then return err.control(rc) end
    local pool = adopt(out[0])
    owned[pool] = true
    if values.fill then
        ok, text, name = pool:fill(values.fill)
        if not ok then
            pool:free()
            return nil, text, name
        end
    end
    return pool
end

-- A handle on a pool that somebody else owns (a port).
function M.borrow(ptr)
    return adopt(ptr)
end

-- What a fresh packet holds from now on; "" = nothing. -> true | nil, text
function Pool:fill(bytes)
    if type(bytes) ~= "string" then
        err.raise("pool:fill wants a string of bytes, not a %s", type(bytes))
    end
    local rc = C.mr_pool_template(self:pointer(), bytes, #bytes)
    if rc < 0 then return err.control(rc) end
    return true
end

-- Packets in the pool / of them not in use / data bytes of one buffer.
function Pool:size() return C.mr_pool_size(self:pointer()) end
function Pool:available() return C.mr_pool_available(self:pointer()) end
function Pool:buffer() return C.mr_pool_buffer(self:pointer()) end

-- nil, text, name when a running task or an open port may use it.
function Pool:idle()
    for task in pairs(self.tasks) do
        if task:state() == "running" then
            return err.new("EBUSY", "pool %s is in use by task %s; stop the "
                .. "task first", self.label, task.label)
        end
    end
    for port in pairs(self.ports) do
        if port.ptr then
            return err.new("EBUSY", "pool %s is in use by port %s; close the "
                .. "port first", self.label, port.label)
        end
    end
    return true
end

-- Gives the memory back. EBUSY while packets are out, or a port or a running
-- task has it. -> true | nil, text, name
function Pool:free()
    if not owned[self] then
        err.raise("pool %s is not ours to free: its owner does", self.label)
    end
    local ok, text, name = self:idle()
    if not ok then return nil, text, name end
    local rc = C.mr_pool_free(self:pointer())
    if rc < 0 then return err.control(rc) end
    owned[self] = nil
    self.ptr = nil
    return true
end

-- Frees what this state owns, but for those that went to another state when
-- `keep_sent`. Returns the pools that are still in use.
function M.free_all(keep_sent)
    local left = {}
    for pool in pairs(owned) do
        if keep_sent and pool.sent or not pool:free() then
            left[#left + 1] = pool
        end
    end
    return left
end

-- Takes over pools whose task ended while their packets were under way.
function M.take_over(pools)
    for _, pool in ipairs(pools) do owned[pool] = true end
end

return M
