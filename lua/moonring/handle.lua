-- Objects that are a pointer into C: ports, queues, pools. They live until
-- they are closed or their Lua state ends; use after that raises instead of
-- touching freed memory. They may travel to a task (pack.lua), where they are
-- a borrowed handle on the same C object.
local err = require "moonring.error"

local M = {}

-- A class of handles. `name` is what messages and the packing format call it.
function M.class(name)
    local class = { class = name }
    class.__index = class
    class.__name = name

    function class:pointer()
        return self.ptr or err.raise("%s %s is closed", name, self.label)
    end

    function class:__tostring()
        return ("%s %s%s"):format(name, self.label,
            self.ptr and "" or " (closed)")
    end
    return class
end

return M
