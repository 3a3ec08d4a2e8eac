-- Control calls return, misuse raises where the script is.
local mr = require "moonring"
local err = require "moonring.error"
local tap = require "tap"

tap.test("a control error is nil, \"NAME: text\", \"NAME\"", function()
    tap.fails("ENOENT", "no such thing: x", err.new("ENOENT",
        "no such thing: %s", "x"))
    tap.fails("EINVAL", "2..", mr.pool { size = 40000 })
end)

tap.test("misuse raises at the caller's line", function()
    local line = debug.getinfo(1, "l").currentline + 1
    local ok, text = pcall(function() mr.burst(1000) end)
    tap.eq(ok, false, "pcall")
    tap.match(text, "error%.lua:" .. line .. ": mr.burst wants")
end)

tap.test("the text of a control call is known with and without position",
    function()
        tap.eq(err.control_text "EBUSY: it is", "EBUSY: it is")
        tap.eq(err.control_text "/a/b.lua:12: EBUSY: it is", "EBUSY: it is")
        tap.eq(err.control_text "/a/b.lua:12: attempt to index", nil)
        tap.eq(err.control_text(nil), nil)
    end)

main = tap.main
