-- The FFI with Moonring's declarations, which come from core/moonring.h and
-- nowhere else. Every module that touches C requires this one.
local ffi = require "ffi"

ffi.cdef(require "moonring.cdef")

return ffi
