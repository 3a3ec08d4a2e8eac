-- The declaration that Lua reads against what the C compiler makes of the same
-- header: every struct's size, every field's offset, every function.
local ffi = require "moonring.ffi"
local tap = require "tap"

local cdef = require "moonring.cdef"

-- Struct name -> list of its fields, from "struct NAME { ... };" at the top.
local function structs()
    local out = {}
    for name, body in cdef:gmatch "struct%s+([%w_]+)%s*(%b{})%s*;" do
        local fields = {}
        for declaration in body:sub(2, -2):gmatch "[^;]+" do
            for part in (declaration .. ","):gmatch "([^,]+)," do
                fields[#fields + 1] = part:gsub("%b[]", "")
                    :match "([%w_]+)%s*$"
            end
        end
        out[name] = fields
    end
    return out
end

-- Names of the functions.
local function functions()
    local flat = cdef:gsub("%b{}", "")
    local out = {}
    for name in flat:gmatch "[%s%*](mr_[%w_]+)%s*%b()%s*;" do
        out[#out + 1] = name
    end
    return out
end

local function keys(t)
    local out = {}
    for key in pairs(t) do out[#out + 1] = key end
    table.sort(out)
    return out
end

local function c_program()
    local out = { "#include <stdio.h>", "#include <moonring.h>",
        "int main(void)", "{" }
    local list = structs()
    for _, name in ipairs(keys(list)) do
        out[#out + 1] = ('printf("%s - %%zu\\n", sizeof(struct %s));')
            :format(name, name)
        for _, field in ipairs(list[name]) do
            out[#out + 1] = ('printf("%s %s %%zu\\n", '
                .. 'offsetof(struct %s, %s));'):format(name, field, name,
                field)
        end
    end
    out[#out + 1] = "void (*volatile all[])(void) = {"
    for _, name in ipairs(functions()) do
        out[#out + 1] = ("(void (*)(void))%s,"):format(name)
    end
    out[#out + 1] = "};"
    out[#out + 1] = "return all[0] ? 0 : 0;"
    out[#out + 1] = "}"
    return table.concat(out, "\n")
end

local header = os.getenv "MOONRING_HEADER" or "core/moonring.h"
local cc = os.getenv "MOONRING_CC" or "cc"

-- -c checks that each function is declared; the program that is run has them
-- cut out, as it is not linked with the core.
local function compiled()
    local source = tap.file(c_program())
    local folder = header:match "^(.*)/[^/]*$"
    local flags = "-std=c11 -x c -I " .. folder .. " " .. source
    local status, _, text = tap.shell(("%s -c -o /dev/null %s"):format(cc,
        flags))
    tap.eq(status, 0, "cc -c: " .. text)
    local program = os.tmpname()
    local plain = tap.file((c_program():gsub("void %(%*volatile.-return.-;",
        "return 0;")))
    flags = flags:gsub("%S+$", plain)
    status, _, text = tap.shell(("%s -o %s %s"):format(cc, program, flags))
    tap.eq(status, 0, "cc: " .. text)
    local out
    status, out = tap.shell(program)
    os.remove(program)
    tap.eq(status, 0, "the program that cc made")
    return out
end

tap.test("every struct has C's size and every field C's offset", function()
    local lines = 0
    for name, field, number in compiled():gmatch "(%S+) (%S+) (%d+)" do
        lines = lines + 1
        local ctype = "struct " .. name
        if field == "-" then
            tap.eq(ffi.sizeof(ctype), tonumber(number), "sizeof " .. ctype)
        else
            tap.eq(ffi.offsetof(ctype, field), tonumber(number),
                ("offset of %s.%s"):format(ctype, field))
        end
    end
    tap.ok(lines > 100, "that the program told many numbers")
end)

tap.test("the parser above sees every struct and function", function()
    local list = structs()
    for _, name in ipairs { "mr_pkt", "mr_burst", "mr_counters",
        "mr_vhost_options", "mr_port_info", "mr_counter_row" } do
        tap.ok(list[name], "that struct " .. name .. " was found")
    end
    tap.eq(#list.mr_burst, 3, "fields of struct mr_burst")
    local marks = 0
    for _ in cdef:gsub("%b{}", ""):gmatch "%)%s*;" do marks = marks + 1 end
    tap.eq(#functions(), marks, "functions found")
end)

tap.test("every declared function is in the program", function()
    for _, name in ipairs(functions()) do
        local ok, text = pcall(function() return ffi.C[name] end)
        tap.ok(ok, "that " .. name .. " is there (" .. tostring(text) .. ")")
    end
end)

main = tap.main
