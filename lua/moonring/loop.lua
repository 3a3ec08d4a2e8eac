-- Waiting. The script's own thread is the control thread: whenever it waits it
-- serves sockets and timers. Tasks only sleep.
local ffi = require "moonring.ffi"
local err = require "moonring.error"

local C = ffi.C
local M = {}

-- Longest time between two looks at what we wait for, in microseconds.
local STEP_US = 20000

local control = true

-- Called once in the state of a task.
function M.leave_control()
    control = false
end

function M.is_control()
    return control
end

-- False once the process, or this task, was asked to stop. The condition of
-- every packet loop; in main it also serves the sockets.
function M.running()
    if control then C.mr_loop_run(0) end
    return C.mr_running() ~= 0
end

-- Asks the process to stop: mr.running() is false everywhere.
function M.stop()
    C.mr_stop()
end

local function pause(us)
    if control then
        C.mr_loop_run(us)
    else
        C.mr_sleep_us(us)
    end
end

-- Seconds on a clock that only goes forward.
function M.now()
    return tonumber(C.mr_now()) / 1e9
end

-- Waits until fn() is true: `timeout` seconds at most (nil = no limit), less
-- when we are to stop. Returns whether it was.
function M.wait_for(fn, timeout)
    if timeout and (type(timeout) ~= "number" or timeout ~= timeout) then
        err.raise("a timeout is a number of seconds")
    end
    local limit = timeout and M.now() + timeout
    while not fn() do
        if not M.running() then return false end
        local left = limit and (limit - M.now()) * 1e6 or STEP_US
        if left <= 0 then return fn() end
        pause(math.min(left, STEP_US))
    end
    return true
end

-- Waits that many seconds. Returns false when we are to stop.
function M.sleep(seconds)
    if not seconds then err.raise("mr.sleep wants a number of seconds") end
    M.wait_for(function() return false end, seconds)
    return M.running()
end

return M
