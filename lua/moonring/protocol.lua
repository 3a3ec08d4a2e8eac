-- Protocol headers, one declaration each: the C struct, the getters and
-- setters, fill{}, dump() and `moonring list headers` all come from here.
--
-- A field is { name, type, default, parts }. Types: u8 u16 u32 mac ip4 ip6.
-- A part of a field is { name, lowest bit, bits, default }. `next` is the
-- field that tells what follows, and its value by protocol; `length` the field
-- that holds the bytes from this header on (with `length_after`: after it);
-- `checksum` what the checksum covers, "header" or "l4": the latter with a
-- pseudo header that names `number`, unless `pseudo` is false.
return {
    {
        name = "eth", text = "Ethernet",
        fields = {
            { "dst", "mac", "02:00:00:00:00:02" },
            { "src", "mac", "02:00:00:00:00:01" },
            { "type", "u16", 0 },
        },
        next = { "type", ip4 = 0x0800, arp = 0x0806, vlan = 0x8100,
            ip6 = 0x86dd },
    },
    {
        name = "vlan", text = "802.1Q tag",
        fields = {
            { "tci", "u16", 0, { { "pcp", 13, 3 }, { "dei", 12, 1 },
                { "vid", 0, 12, 1 } } },
            { "type", "u16", 0 },
        },
        next = { "type", ip4 = 0x0800, arp = 0x0806, vlan = 0x8100,
            ip6 = 0x86dd },
    },
    {
        name = "arp", text = "ARP for IPv4 over Ethernet",
        fields = {
            { "htype", "u16", 1 }, { "ptype", "u16", 0x0800 },
            { "hlen", "u8", 6 }, { "plen", "u8", 4 },
            { "op", "u16", 1 },
            { "sha", "mac", "02:00:00:00:00:01" }, { "spa", "ip4", "10.0.0.1" },
            { "tha", "mac", "00:00:00:00:00:00" }, { "tpa", "ip4", "10.0.0.2" },
        },
    },
    {
        name = "ip4", text = "IPv4 without options",
        fields = {
            { "version_ihl", "u8", 0, { { "version", 4, 4, 4 },
                { "ihl", 0, 4, 5 } } },
            { "tos", "u8", 0, { { "dscp", 2, 6 }, { "ecn", 0, 2 } } },
            { "len", "u16", 0 }, { "id", "u16", 0 },
            { "frag", "u16", 0, { { "df", 14, 1, 1 }, { "mf", 13, 1 },
                { "frag_offset", 0, 13 } } },
            { "ttl", "u8", 64 }, { "protocol", "u8", 0 },
            { "checksum", "u16", 0 },
            { "src", "ip4", "10.0.0.1" }, { "dst", "ip4", "10.0.0.2" },
        },
        next = { "protocol", icmp4 = 1, tcp = 6, udp = 17 },
        length = "len", checksum = "header",
    },
    {
        name = "icmp4", text = "ICMP echo",
        fields = {
            { "type", "u8", 8 }, { "code", "u8", 0 },
            { "checksum", "u16", 0 }, { "id", "u16", 1 }, { "seq", "u16", 1 },
        },
        checksum = "l4", pseudo = false,
    },
    {
        name = "ip6", text = "IPv6",
        fields = {
            { "class_flow", "u32", 0, { { "version", 28, 4, 6 },
                { "class", 20, 8 }, { "flow", 0, 20 } } },
            { "len", "u16", 0 }, { "next_header", "u8", 59 },
            { "hop_limit", "u8", 64 },
            { "src", "ip6", "fd00::1" }, { "dst", "ip6", "fd00::2" },
        },
        next = { "next_header", tcp = 6, udp = 17, icmp6 = 58 },
        length = "len", length_after = true,
    },
    {
        name = "icmp6", text = "ICMPv6 echo",
        fields = {
            { "type", "u8", 128 }, { "code", "u8", 0 },
            { "checksum", "u16", 0 }, { "id", "u16", 1 }, { "seq", "u16", 1 },
        },
        checksum = "l4", number = 58,
    },
    {
        name = "udp", text = "UDP",
        fields = {
            { "src", "u16", 1000 }, { "dst", "u16", 2000 },
            { "len", "u16", 0 }, { "checksum", "u16", 0 },
        },
        length = "len", checksum = "l4", number = 17,
    },
    {
        name = "tcp", text = "TCP without options",
        fields = {
            { "src", "u16", 1000 }, { "dst", "u16", 2000 },
            { "seq", "u32", 0 }, { "ack", "u32", 0 },
            { "offset_flags", "u16", 0, { { "offset", 12, 4, 5 },
                { "flags", 0, 9 }, { "fin", 0, 1 }, { "syn", 1, 1 },
                { "rst", 2, 1 }, { "psh", 3, 1 }, { "ack_flag", 4, 1 } } },
            { "window", "u16", 65535 }, { "checksum", "u16", 0 },
            { "urgent", "u16", 0 },
        },
        checksum = "l4", number = 6,
    },
}
