-- The CPU level that burst functions are chosen for.
local ffi = require "moonring.ffi"
local err = require "moonring.error"

local C = ffi.C
local M = { VARIABLE = "MR_CPU_LEVEL" }

-- Names of all levels, lowest first.
function M.names()
    local out = {}
    while C.mr_cpu_name(#out) ~= nil do
        out[#out + 1] = ffi.string(C.mr_cpu_name(#out))
    end
    return out
end

-- Name of the level in use.
function M.level()
    return ffi.string(C.mr_cpu_name(C.mr_cpu_level()))
end

-- Caps the level for rings that start from now on, in place of $MR_CPU_LEVEL;
-- one that the CPU lacks caps nothing. name: one of M.names(). -> true
-- | nil, text, "EINVAL"
function M.cap(name)
    local rc = C.mr_cpu_cap(name)
    if rc < 0 then return err.control(rc) end
    return true
end

return M
