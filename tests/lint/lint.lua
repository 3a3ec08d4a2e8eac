-- What the lint scripts share: finding files, reading lines, complaining.
-- They run in the source tree's root, one script a subject, and fail when
-- anything was complained of.
local lint = {}

local complaints = 0

-- Files below the directories whose names end in one of the extensions
-- ("c", "lua"; "" = any), sorted. Build trees and the repository's own are
-- left out.
function lint.files(dirs, ...)
    local names = {}
    for _, ext in ipairs { ... } do
        local pattern = ext == "" and "*" or "*." .. ext
        local find = io.popen(("find %s -type f -name '%s' "
            .. "-not -path '*/.git/*' -not -path '*/build*/*' 2>/dev/null")
            :format(table.concat(dirs, " "), pattern))
        for name in find:lines() do
            names[#names + 1] = name:gsub("^%./", "")
        end
        find:close()
    end
    table.sort(names)
    return names
end

function lint.read(path)
    local file = assert(io.open(path, "rb"))
    local text = file:read "*a"
    file:close()
    return text
end

-- Lines of a file, without their ends.
function lint.lines(path)
    local lines = {}
    for line in (lint.read(path) .. "\n"):gmatch "(.-)\n" do
        lines[#lines + 1] = line
    end
    if lines[#lines] == "" then
        lines[#lines] = nil
    end
    return lines
end

function lint.complain(path, line, text, ...)
    complaints = complaints + 1
    print(("%s:%d: %s"):format(path, line, text:format(...)))
end

-- Ends the script. `n` = what was looked at, of which there must be some.
function lint.done(n, what)
    print(("%d %s, %d complaints"):format(n, what, complaints))
    os.exit(complaints == 0 and n > 0)
end

return lint
