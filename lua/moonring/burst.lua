-- Bursts: up to 256 packets that travel together. b[i] with i from 0 to
-- #b - 1; the packets belong to the burst's holder and go back to their pools
-- when the burst is collected.
local ffi = require "moonring.ffi"
local addr = require "moonring.addr"
local err = require "moonring.error"
require "moonring.packet"

local C = ffi.C
local M = {}
local Burst = {}

local burst_type

-- mr.burst(cap): an empty burst for up to `cap` packets, 1..256 (64).
function M.new(cap)
    cap = cap or 64
    if type(cap) ~= "number" or cap % 1 ~= 0 or cap < 1
        or cap > C.MR_BURST_MAX then
        err.raise("mr.burst wants a number from 1 to %d", C.MR_BURST_MAX)
    end
    local burst = burst_type()
    burst.cap = cap
    return burst
end

-- nil would be a pointer to nowhere.
local function check(self)
    if not ffi.istype("struct mr_burst", self) then
        err.raise("a method of bursts wants a burst, not a %s; call it with "
            .. "':'", type(self))
    end
end

-- Fills the burst with `n` fresh packets of the pool (nil = its capacity).
-- All or none. Returns their number; 0 = the pool is short.
function Burst:alloc(pool, n)
    check(self)
    if type(pool) ~= "table" or not pool.is_pool then
        err.raise("burst:alloc wants a pool (mr.pool), not a %s", type(pool))
    end
    return C.mr_pool_alloc(pool.ptr or pool:pointer(), self, n or 0)
end

-- Frees the packets; the burst is empty afterwards.
function Burst:free()
    check(self)
    C.mr_burst_free(self)
end

-- Adds a packet; it must be in no other burst. False when the burst is full.
function Burst:push(pkt)
    if not ffi.istype("struct mr_pkt", pkt) then
        err.raise("burst:push wants a packet, not a %s", type(pkt))
    end
    if self.n >= self.cap then return false end
    self.pkt[self.n] = pkt
    self.n = self.n + 1
    return true
end

-- Takes the last packet out; it is the caller's. Nil when there is none.
function Burst:pop()
    if self.n == 0 then return nil end
    self.n = self.n - 1
    return self.pkt[self.n]
end

-- Fills in checksums: "ip4", "l4" or both (nil). Returns packets changed.
local checksum_bits = { ip4 = C.MR_CHECKSUM_IP4, l4 = C.MR_CHECKSUM_L4 }
local checksum_all = C.MR_CHECKSUM_IP4 + C.MR_CHECKSUM_L4

function Burst:checksum(what)
    check(self)
    local bits = what and checksum_bits[what] or checksum_all
    if what and not checksum_bits[what] then
        err.raise("burst:checksum wants 'ip4', 'l4' or nothing")
    end
    return C.mr_burst_checksum(self, bits)
end

-- Answers as a host with this MAC (number or struct of 6 bytes) and IPv4
-- address (number, 0 = any) would. Returns packets answered.
local mac_bytes = ffi.new "uint8_t[6]"

function Burst:reflect(mac, ip4)
    check(self)
    return C.mr_burst_reflect(self, addr.mac_bytes(mac, mac_bytes), ip4 or 0)
end

local function next_packet(burst, i)
    i = i + 1
    if i < burst.n then return i, burst.pkt[i] end
end

-- for i, pkt in burst:packets() do ... end
function Burst:packets()
    return next_packet, self, -1
end

local function outside(burst, i)
    err.raise("burst[%s]: it holds %d packets", tostring(i), burst.n)
end

burst_type = ffi.metatype("struct mr_burst", {
    __index = function(burst, key)
        if type(key) == "number" then
            if key >= 0 and key < burst.n then return burst.pkt[key] end
            return outside(burst, key)
        end
        return Burst[key]
    end,
    __len = function(burst) return burst.n end,
    __gc = C.mr_burst_free,
})

return M
