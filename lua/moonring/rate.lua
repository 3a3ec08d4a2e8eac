-- Rates and pace. mr.rate "1Mpps" is a pace of one packet each microsecond;
-- mr.rate("5Gbps", { frame = 64 }) counts bits: of frames (L2) by default, or
-- with preamble, gap and check sequence ("5Gbps L1").
--
--   pace:wait(n)  waits until n more packets may go; false = we are to stop
--
-- The pace is a constant bit rate: it makes up for lateness up to a
-- millisecond; what is later is lost and told by pace:lost().
local ffi = require "moonring.ffi"
local err = require "moonring.error"

local C = ffi.C
local M = {}

local Pace = {}
Pace.__index = Pace

local scale = { [""] = 1, k = 1e3, M = 1e6, G = 1e9 }
-- Bytes on the wire beside the frame: preamble 8, check sequence 4, gap 12.
local L1_BYTES = 24
-- No port of ours and no machine of today does more.
local PPS_MAX = 1e9

local function frame_bits(layer, options)
    local frame = options and options.frame
    if type(frame) ~= "number" or frame < 1 then
        return nil, "a rate in bits needs { frame = bytes }"
    end
    return 8 * (layer == "L1" and frame + L1_BYTES or frame)
end

-- Packets a second of a text such as "100kpps"; 0 for "max". nil, why
function M.parse(text, options)
    if text == "max" then return 0 end
    local digits, prefix, unit, layer =
        tostring(text):match "^([%d.]+)%s*([kMG]?)([pb]ps)%s*(L?[12]?)$"
    local n = tonumber(digits)
    if not n or unit == "pps" and layer ~= "" or layer == "L" then
        return nil, ("'%s' is not a rate such as 100kpps, 1Mpps, "
            .. "'5Gbps L1' or max"):format(tostring(text))
    end
    local pps = n * scale[prefix]
    if unit == "bps" then
        local bits, why = frame_bits(layer, options)
        if not bits then return nil, why end
        pps = pps / bits
    end
    if pps <= 0 or pps > PPS_MAX then
        return nil, ("%s is %g packets a second, which is not possible")
            :format(text, pps)
    end
    return pps
end

-- For argparse: checks the text and keeps it.
function M.check(text)
    local pps, why = M.parse(text, { frame = 64 })
    return pps and text or nil, why
end

function M.new(text, options)
    local pps, why = M.parse(text, options)
    if not pps then err.raise("mr.rate: %s", why) end
    return setmetatable({
        pps = pps,
        step = pps > 0 and 1e9 / pps or 0, -- ns a packet
        start = nil, due = 0, missed = 0,
    }, Pace)
end

-- ns since the pace began, as a number that does not lose precision.
local function clock(self)
    if not self.start then self.start = C.mr_now() end
    return tonumber(C.mr_now() - self.start)
end

local SLACK = 1e6 -- ns of lateness that is made up for
local SLEEP = 2e5 -- ns: shorter waits give the core away for a moment,
local YIELD = 5e3 -- and still shorter ones spin

function Pace:wait(n)
    if not (n >= 0 and n < 2 ^ 53) then
        err.raise("rate:wait wants a number of packets")
    end
    if self.step == 0 then return C.mr_running() ~= 0 end
    local now = clock(self)
    if now - self.due > SLACK then
        self.missed = self.missed + (now - self.due - SLACK) / self.step
        self.due = now - SLACK
    end
    while now < self.due do
        if C.mr_running() == 0 then return false end
        if self.due - now > SLEEP then
            C.mr_sleep_us((self.due - now - SLEEP / 2) / 1e3)
        elseif self.due - now > YIELD then
            C.mr_sleep_us(0)
        end
        now = clock(self)
    end
    self.due = self.due + n * self.step
    return C.mr_running() ~= 0
end

-- Packets that were not sent because we came too late.
function Pace:lost()
    return math.floor(self.missed)
end

return M
