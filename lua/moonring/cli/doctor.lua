-- moonring doctor [--json]: what this machine offers to a packet loop. Each
-- check tells what was found, what it costs, and the command that mends it.
-- Nothing here is required: all of it makes things faster or steadier.
local cpu = require "moonring.cpu"
local host = require "moonring.host"
local json = require "moonring.json"
local stats = require "moonring.stats"
local usage = require "moonring.cli.usage"
local ffi = require "moonring.ffi"

local M = {}

local function read(path)
    local file = io.open(path)
    if not file then return "" end
    local text = file:read "*a" or ""
    file:close()
    return text
end

local function line(path)
    return read(path):match "^[^\n]*" or ""
end

-- A finding: state "ok" or "warn", what was found, its cost, its cure.
local function ok(found)
    return { state = "ok", found = found }
end

local function warn(found, cost, cure)
    return { state = "warn", found = found, cost = cost, cure = cure }
end

local function check_cores()
    local cpus = host.cpus()
    local found = ("%d usable (%s)"):format(#cpus, table.concat(cpus, ","))
    if #cpus >= 3 then return ok(found) end
    if #cpus == 2 then
        return warn(found, "two workers leave no core for control: short "
            .. "stalls when sockets are served",
            "give the process a third core: taskset, or more vCPUs")
    end
    return warn(found, "both ends of a ring share one core: rates are a "
        .. "fraction of what two cores reach",
        "give the process two or more cores: taskset, or more vCPUs")
end

local function check_isolation()
    local isolated = line "/sys/devices/system/cpu/isolated"
    if isolated ~= "" then return ok("CPUs " .. isolated .. " isolated") end
    return warn("no isolated CPUs", "other programs interrupt a worker: "
        .. "single trials vary",
        "boot with isolcpus=1,2 nohz_full=1,2 (CPUs for the workers)")
end

local function check_hugepages()
    local info = read "/proc/meminfo"
    local total = tonumber(info:match "HugePages_Total:%s+(%d+)") or 0
    local free = tonumber(info:match "HugePages_Free:%s+(%d+)") or 0
    local size = tonumber(info:match "Hugepagesize:%s+(%d+)") or 2048
    local found = ("%d of %d free, %d MiB each"):format(free, total,
        size / 1024)
    if free * size >= 256 * 1024 then return ok(found) end
    return warn(found, "packet memory is in small pages: more TLB misses and a "
        .. "lower rate",
        "sudo sysctl -w vm.nr_hugepages=512")
end

local function check_thp()
    local mode = line("/sys/kernel/mm/transparent_hugepage/enabled")
        :match "%[(%w+)%]"
    if mode == "always" or mode == "madvise" then
        return ok("transparent huge pages: " .. mode)
    end
    return warn("transparent huge pages: " .. (mode or "not in this kernel"),
        "pools without hugetlb pages stay in small pages",
        "echo madvise | sudo tee "
        .. "/sys/kernel/mm/transparent_hugepage/enabled")
end

-- Of what virtio ports share with their peers, where no hugetlb pages serve.
local function check_shmem()
    local mode = line("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
        :match "%[([%w_]+)%]"
    local found = "transparent huge pages, shared: "
        .. (mode or "not in this kernel")
    if mode and mode ~= "never" and mode ~= "deny" then return ok(found) end
    if check_hugepages().state == "ok" then
        return ok(found .. "; hugetlb pages serve")
    end
    return warn(found, "memory that virtio ports share is in small pages: one "
        .. "core with many ports misses the TLB for nearly every packet",
        "echo advise | sudo tee "
        .. "/sys/kernel/mm/transparent_hugepage/shmem_enabled")
end

local function check_memlock()
    local limit = read("/proc/self/limits")
        :match "Max locked memory%s+(%S+)"
    local found = limit == "unlimited" and limit
        or ("%d KiB"):format((tonumber(limit) or 0) / 1024)
    if limit == "unlimited" or (tonumber(limit) or 0) >= 2 ^ 28 then
        return ok(found)
    end
    return warn(found, "physical devices (eth ports over VFIO) cannot pin "
        .. "their memory; sockets are not affected",
        "ulimit -l unlimited, or memlock in /etc/security/limits.conf")
end

-- Capabilities of capability(7) that eth ports on kernel interfaces need.
local capabilities = { { "CAP_NET_ADMIN", 12 }, { "CAP_NET_RAW", 13 } }

local function check_permissions()
    local status = read "/proc/self/status"
    local uid = status:match "Uid:%s+%d+%s+(%d+)"
    local mask = tonumber(status:match "CapEff:%s+(%x+)", 16) or 0
    local missing = {}
    for _, capability in ipairs(capabilities) do
        if math.floor(mask / 2 ^ capability[2]) % 2 == 0 then
            missing[#missing + 1] = capability[1]
        end
    end
    local found = "user " .. (uid or "?")
    if #missing == 0 then return ok(found .. ", may use interfaces") end
    return warn(found .. ", without " .. table.concat(missing, " and "),
        "no eth ports on taps and interfaces; sockets are not affected",
        "sudo setcap cap_net_admin,cap_net_raw+ep on the moonring program")
end

local function check_sockets()
    for _, dir in ipairs { os.getenv "XDG_RUNTIME_DIR" or "", "/run/moonring",
        os.getenv "TMPDIR" or "/tmp" } do
        if dir ~= "" and host.may(dir, "wx") then
            return ok("sockets may go to " .. dir)
        end
    end
    return warn("no folder for sockets may be written",
        "ports need a socket path elsewhere", "export TMPDIR=/some/folder")
end

-- What copies and checksums can use, widest last.
local cpu_flags = { "ssse3", "sse4_2", "avx2", "avx512f", "avx512bw",
    "avx512vl" }

local function check_cpu()
    local info = read "/proc/cpuinfo"
    local name = info:match "model name%s*:%s*([^\n]+)" or ffi.arch
    local flags = " " .. (info:match "flags%s*:%s*([^\n]+)" or "") .. " "
    local have = {}
    for _, flag in ipairs(cpu_flags) do
        if flags:find(" " .. flag .. " ", 1, true) then
            have[#have + 1] = flag
        end
    end
    local found = name .. (#have > 0 and ": " .. table.concat(have, " ") or "")
        .. "; rings use " .. cpu.level()
    if ffi.arch ~= "x64" or flags:find " avx512f " then return ok(found) end
    return warn(found, "the C library copies long packets in narrower steps",
        "a CPU with AVX-512, or for a guest: -cpu host")
end

local function check_clock()
    local flags = read "/proc/cpuinfo"
    local source =
        line "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    local found = ("%s, %.3f GHz"):format(source ~= "" and source
        or "no known clock source", tonumber(ffi.C.mr_tsc_hz()) / 1e9)
    if ffi.arch ~= "x64" or flags:find "constant_tsc"
        and flags:find "nonstop_tsc" then
        return ok(found)
    end
    return warn(found, "the time stamp counter may change its speed: cycles "
        .. "per packet are not comparable",
        "a CPU with constant_tsc and nonstop_tsc, or for a guest: -cpu host")
end

local function check_governor()
    local governor =
        line "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    if governor == "" then return ok "frequency is not ours to set" end
    if governor == "performance" then return ok(governor) end
    return warn(governor, "the clock ramps up during a trial: the first "
        .. "seconds are slow", "sudo cpupower frequency-set -g performance")
end

M.checks = {
    { "cores", check_cores }, { "isolation", check_isolation },
    { "hugepages", check_hugepages }, { "thp", check_thp },
    { "shmem", check_shmem },
    { "memlock", check_memlock }, { "permissions", check_permissions },
    { "sockets", check_sockets }, { "cpu", check_cpu },
    { "clock", check_clock }, { "governor", check_governor },
}

-- All findings, each with its name.
function M.examine()
    local out = {}
    for i, check in ipairs(M.checks) do
        out[i] = check[2]()
        out[i].name = check[1]
    end
    return out
end

local function print_findings(findings)
    local lines, warnings = {}, 0
    for i, one in ipairs(findings) do
        lines[i] = { one.state == "ok" and "ok" or "--", one.name, one.found }
    end
    local text = stats.align(lines)
    local i = 0
    for row in (text .. "\n"):gmatch "(.-)\n" do
        i = i + 1
        print(row)
        if findings[i].cost then
            warnings = warnings + 1
            print("      costs: " .. findings[i].cost)
            print("      mend:  " .. findings[i].cure)
        end
    end
    print(warnings == 0 and "All is as good as it gets."
        or ("Moonring runs here; %d thing%s could be better."):format(warnings,
            warnings == 1 and "" or "s"))
end

function M.run(args)
    local parser = usage.parser("moonring doctor", "Tells what this machine "
        .. "offers, what is missing, what that costs and what mends it.")
    parser:flag "--json":description "One JSON array, an object a finding."
    local parsed, wrong = usage.parse(parser, "moonring doctor", args)
    if not parsed then return wrong end
    local findings = M.examine()
    if parsed.json then
        print(json.encode(findings))
    else
        print_findings(findings)
    end
    return usage.DONE
end

return M
