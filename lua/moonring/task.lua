-- Tasks: a global function of the script that runs on a thread of its own, in
-- a Lua state of its own. The script's file is loaded again there (its top
-- level runs, main does not); arguments and results are copied (pack.lua).
local ffi = require "moonring.ffi"
local err = require "moonring.error"
local loop = require "moonring.loop"
local option = require "moonring.option"
local pack = require "moonring.pack"
local pools = require "moonring.pool"
local queues = require "moonring.queue"
local scripts = require "moonring.script"
local host = require "moonring.host"

local C = ffi.C
local M = {}

local Task = {}
Task.__index = Task

M.options = {
    { "run", "string", "name of the script's global function",
        required = true },
    { "args", "any", "list of arguments: plain values, ports, queues, pools" },
    { "core", "count", "CPU to run on; any by default" },
    { "script", "string", "file with the function (this script)" },
}

-- Tasks that were started and not freed, in order.
M.live = {}

local states = { [C.MR_TASK_RUNNING] = "running", [C.MR_TASK_DONE] = "done",
    [C.MR_TASK_FAILED] = "failed" }

-- Ports and pools among the arguments, which must last while the task runs.
local function note_handles(task, value, depth)
    if type(value) ~= "table" or depth > 32 then return end
    if value.class == "port" or value.class == "pool" then
        value.tasks[task] = true
    elseif value.class == "queue" then
        value:release()
        value.port.tasks[task] = true
    elseif not getmetatable(value) then
        for _, item in pairs(value) do note_handles(task, item, depth + 1) end
    end
end

-- mr.task { run = "name", args = { ... }, core = n } -> task | nil, text, name
function M.start(given)
    local values = option.check("mr.task", M.options, given)
    local script = values.script or scripts.path
    if not loop.is_control() then
        err.raise("mr.task: a task cannot start tasks")
    end
    if not script then err.raise("mr.task: no script is running") end
    if values.args ~= nil and type(values.args) ~= "table" then
        err.raise("mr.task: option 'args' must be a list of arguments")
    end
    local list = values.args or {}
    local args = pack.pack(unpack(list, 1, table.maxn(list)))
    local ok, text, name = host.start()
    if not ok then return nil, text, name end
    local out = ffi.new "struct mr_task *[1]"
    local task = setmetatable({ label = values.run, core = values.core,
        args = list }, Task)
    note_handles(task, list, 0)
    local rc = C.mr_task_start(script, values.run, args, #args,
        values.core or -1, out)
    if rc < 0 then
        task.ended = "failed" -- nothing is in use by it
        return err.control(rc)
    end
    task.ptr = out[0]
    M.live[#M.live + 1] = task
    return task
end

-- Keeps how the task ended once it has: the C object goes.
local function settle(self)
    if self.ended or not self.ptr then return end
    local state = states[C.mr_task_state(self.ptr)]
    if state == "running" then return end
    local len = ffi.new "uint32_t[1]"
    local bytes = C.mr_task_result(self.ptr, len)
    bytes = ffi.string(bytes, len[0])
    local decoded, list = pcall(function() return { pack.unpack(bytes) } end)
    self.ended = state
    if decoded and type(list[1]) == "table" then
        pools.take_over(list[1])
        self.n = select("#", pack.unpack(bytes)) - 1
        self.values = { unpack(list, 2, self.n + 1) }
    else
        self.n, self.values = 1, { bytes }
    end
    C.mr_task_free(self.ptr, 1000000)
    self.ptr = nil
end

-- "running", "done" or "failed".
function Task:state()
    settle(self)
    return self.ended or "running"
end

-- Asks the task to end: mr.running() is false for it from now on.
function Task:stop()
    if self.ptr then C.mr_task_stop(self.ptr) end
end

-- Waits for the end, `timeout` seconds at most. -> true | nil, text, name
-- (EBUSY tells the line that the task is at).
function Task:wait(timeout)
    if loop.wait_for(function() return self:state() ~= "running" end,
        timeout) then
        return true
    end
    return self:overdue()
end

-- Waits for the end, `timeout` seconds at most, and gives what the function
-- returned | nil, the error with its traceback | nil, text, name (EBUSY tells
-- the line that the task is at).
function Task:result(timeout)
    local ok, text, name = self:wait(timeout)
    if not ok then return nil, text, name end
    self.seen = true
    if self.ended == "failed" then return nil, self.values[1] end
    return unpack(self.values, 1, self.n)
end

-- Where a task is that does not end. -> nil, text, name | true, it ended
function Task:overdue()
    if self:state() ~= "running" then return true end
    local rc = C.mr_task_free(self.ptr, 0)
    if rc < 0 then return err.control(rc) end
    self.ptr, self.ended, self.n, self.values = nil, "done", 0, {}
    return true
end

-- Seconds that a task gets to end after it was interrupted.
local GRACE = 0.5

-- Waits until `limit`, also when the process is to stop. -> whether it ended
local function await(task, limit)
    while task:state() == "running" and loop.now() < limit do
        C.mr_loop_run(1000)
        host.nap(0.001)
    end
    return task:state() ~= "running"
end

-- The process's end: stops all tasks and waits for them, `timeout` seconds at
-- most together. Those that do not look at mr.running() are interrupted, where
-- Lua can be.
-- -> list of texts of failures that nobody asked for, whether all ended
function M.finish(timeout)
    local failed, all = {}, true
    local limit = loop.now() + timeout
    loop.stop()
    for _, task in ipairs(M.live) do
        await(task, limit)
        if task:state() == "running" then
            local _, text = task:overdue()
            failed[#failed + 1] = text
            all = await(task, loop.now() + GRACE) and all
        elseif task:state() == "failed" and not task.seen then
            failed[#failed + 1] = ("task %s failed: %s"):format(task.label,
                task.values[1])
        end
    end
    M.live = {}
    return failed, all
end

local function call_task(script, entry, args)
    scripts.load(script)
    local fn = rawget(_G, entry)
    if type(fn) ~= "function" then
        error(("%s has no global function '%s' for the task")
            :format(script, entry), 0)
    end
    local results = { n = 0 }
    local function keep(...)
        results.n = select("#", ...)
        for i = 1, results.n do results[i] = (select(i, ...)) end
    end
    keep(fn(pack.unpack(args)))
    return pack.pack(unpack(results, 1, results.n))
end

-- Called by run/task.c in the task's own state. -> ok, packed: first the pools
-- that still have packets under way, then the results or the error.
function M.enter(script, entry, args)
    loop.leave_control()
    local ok, result = xpcall(function()
        return call_task(script, entry, args)
    end, function(message)
        return err.control_text(message)
            or debug.traceback(err.text(message), 2)
    end)
    queues.release_all()
    collectgarbage()
    collectgarbage()
    local left = pack.pack(pools.free_all(true))
    return ok, left .. (ok and result or pack.pack(result))
end

return M
