-- LuaJIT code in lines of 80. A script's top-level functions are its interface
-- (configure, main and the tasks that mr.task names), hence global on purpose.
std = "luajit"
max_line_length = 80
exclude_files = { "build*/" }

local script = {
    allow_defined_top = true,
    -- 131: nobody in the file calls main; 121: a task may be named "load".
    ignore = { "131", "121/load" },
}
files["scripts/**/*.lua"] = script
files["examples/**/*.lua"] = script
files["tests/**/*.lua"] = script
