-- Proves on the compiled burst functions that feature 36 is decided at
-- negotiation (T16, T18, T20, T22):
--   * a variant without it holds no I/O fence, one with it holds them: neither
--     holds both arms, so there is nothing to test;
--   * each holds one full fence: one a burst;
--   * none looks at the negotiated bits in struct mr_ring;
--   * variants that should differ do;
--   * the levels above the baseline, and only they, copy with wide vectors.
-- The functions of every CPU level are looked at, each level's in objects of
-- its own.
--
-- usage: luajit disasm.lua OBJDUMP FACTS OBJECT...
--   FACTS: the program of facts.c; OBJECT: what mr_burst is made of (x86-64)

-- Bodies, and the bits of the variant that their hot path depends on.
local bodies = {
    device_rx = { "packed", "in_order", "platform" },
    device_tx = { "packed", "platform" },
    driver_rx = { "packed", "mergeable", "in_order", "platform" },
    driver_tx = { "packed", "in_order", "platform" },
}

local complaints, looked, bodies_n = 0, 0, 0
for _ in pairs(bodies) do bodies_n = bodies_n + 1 end

local function complain(name, text, ...)
    complaints = complaints + 1
    print(name .. ": " .. text:format(...))
end

local function run(command)
    local pipe = assert(io.popen(command))
    local text = pipe:read "*a"
    assert(pipe:close() and text ~= "", command)
    return text
end

-- features = { offset, bytes }, bit[name] = value, variant[number] = name,
-- levels = how many, variants = how many.
local function facts_of(program)
    local facts = { bit = {}, variant = {}, levels = 0, variants = 0 }
    for line in run(program):gmatch "[^\n]+" do
        local kind, a, b = line:match "^(%S+) (%S+) (%S+)$"
        if kind == "features" then
            facts.features = { tonumber(a), tonumber(b) }
        elseif kind == "bit" then
            facts.bit[a] = tonumber(b)
        elseif kind == "level" then
            facts.levels = facts.levels + 1
        else
            facts.variant[tonumber(a)] = b
            facts.variants = facts.variants + 1
        end
    end
    return facts
end

-- Instructions by function, without addresses. What the compiler moved out of
-- a function (NAME.cold, NAME.part.0) counts as the function's.
local function functions_of(objdump, object)
    local list, current = {}, nil
    local text = run(("%s -d --no-show-raw-insn %s"):format(objdump, object))
    for line in text:gmatch "[^\n]+" do
        local name = line:match "^%x+ <([%w_]+)[%w_.]*>:$"
        local code = line:match "^%s+%x+:\t(.*)$"
        if name then
            current = name
            list[current] = list[current] or {}
        elseif code and not code:match "nop" then
            table.insert(list[current], code)
        end
    end
    return list
end

-- The compiler folds equal functions: one is left as a jump to the other.
local function body_of(functions, name)
    local code = functions[name]
    local to = code and #code == 1 and code[1]:match "^jmp +%x+ <([%w_]+)>$"
    return to and body_of(functions, to) or code
end

local function count(code, pattern)
    local n = 0
    for _, instruction in ipairs(code) do
        n = n + (instruction:match(pattern) and 1 or 0)
    end
    return n
end

-- Does the instruction read a word into a register or a comparison? Copies of
-- packets use vector registers, counters are added to where they are.
local function looks(instruction)
    if instruction:match "%%[xyz]mm" then return false end
    return instruction:match "^test" or instruction:match "^cmp"
        or instruction:match "^bt" or not instruction:match "%)$"
end

-- The bits have a place in the ring; the ring is a register other than the
-- stack's, and nothing lies before it.
local function look_at_features(code, features)
    for _, instruction in ipairs(code) do
        for sign, displacement, base in
            instruction:gmatch "(%-?)(0x%x+)%(%%(%w+)" do
            local at = tonumber(displacement) - features[1]
            if sign == "" and at >= 0 and at < features[2] and base ~= "rsp"
                and looks(instruction) then
                return instruction
            end
        end
    end
end

local function check_fences(name, code, platform)
    local read, write = count(code, "^lfence"), count(code, "^sfence")
    local full, locked = count(code, "^mfence"), count(code, "^lock ")
    if platform then
        if read == 0 or write == 0 then
            complain(name, "feature 36, but %d read and %d write fences", read,
                write)
        end
        if full ~= 1 or locked ~= 0 then
            complain(name, "%d full I/O fences and %d of ours, not one and "
                .. "none", full, locked)
        end
    elseif read + write + full > 0 then
        complain(name, "%d I/O fences without feature 36", read + write + full)
    elseif locked ~= 1 then
        complain(name, "%d full fences a burst, not one", locked)
    end
end

local function same(a, b)
    local function text(code)
        return (table.concat(code, "\n"):gsub("%x+ <[^>]*>", ""))
    end
    return text(a) == text(b)
end

local facts = facts_of(arg[2])

local function check_function(functions, body, bits, number, where)
    local code = body_of(functions, body .. "_" .. number)
    if not code then return end
    looked = looked + 1
    local name = ("%s_%d (%s) in %s"):format(body, number,
        facts.variant[number], where)
    check_fences(name, code, bit.band(number, facts.bit.platform) ~= 0)
    local found = look_at_features(code, facts.features)
    if found then complain(name, "looks at the negotiated bits: %s", found) end
    for _, which in ipairs(bits) do
        local other = bit.bxor(number, facts.bit[which])
        local theirs = body_of(functions, body .. "_" .. other)
        if theirs and same(code, theirs) then
            complain(name, "is the same with and without %s", which)
        end
    end
end

-- The compiler was told the level: no option behind ours took it back.
local function check_level(functions, where)
    local code = body_of(functions, "device_tx_0")
    if not code then return end
    local wide = count(code, "%%ymm") > 0
    if wide == (where:find "mr_burst%.dir" ~= nil) then
        complain(where, wide and "holds wide vectors" or "holds none")
    end
end

for i = 3, #arg do
    local functions = functions_of(arg[1], arg[i])
    check_level(functions, arg[i])
    for body, bits in pairs(bodies) do
        for number in pairs(facts.variant) do
            check_function(functions, body, bits, number,
                arg[i]:match "[^/]*%.dir/.*" or arg[i])
        end
    end
end

local wanted = bodies_n * facts.variants * facts.levels
if looked ~= wanted then
    complain("objects", "hold %d burst functions, not %d", looked, wanted)
end
print(("%d burst functions, %d complaints"):format(looked, complaints))
os.exit(complaints == 0 and looked > 0)
