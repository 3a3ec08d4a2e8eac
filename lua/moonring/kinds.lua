-- The kinds of port: which C call opens one and which options it takes. The
-- one list behind mr.vhost{...}, spec strings and `moonring list ports`.
-- Rows as option.lua has them; `main` is the option that the part of a spec
-- before the first comma gives; `lua` rows are used here, not in C.
local M = {}

local function socket_options(listen)
    return {
        { "path", "string", "socket file, at most 107 bytes",
            required = true },
        { "name", "string", "name in statistics and messages" },
        { "queues", "count", "queue pairs, 1..128 (1)", field = "pairs" },
        { "server", "flag", listen
            and "listen on the path (1), or connect and retry"
            or "listen on the path, or connect and retry (0)",
            field = "connect", invert = true, default = listen and 0 or 1 },
        { "retry_ms", "count", "delay between tries to connect (1000)" },
        { "mode", "mode", "permission bits of the socket file (0600)",
            default = -1 },
        { "owner", "count", "user id that owns the socket file",
            default = -1 },
        { "group", "count", "group id of the socket file", default = -1 },
        { "packed", "flag", "RING_PACKED", default = -1 },
        { "mrg_rxbuf", "flag", "MRG_RXBUF", field = "mergeable",
            default = -1 },
        { "in_order", "flag", "IN_ORDER", default = -1 },
        { "indirect", "flag", "INDIRECT_DESC", default = -1 },
        { "event_idx", "flag", "EVENT_IDX", default = -1 },
        { "order_platform", "flag", "ORDER_PLATFORM", default = -1 },
        { "version_1", "flag", "VERSION_1; 0 = legacy", default = -1 },
        { "queue_size", "count", "entries of a ring (virtio; 256)",
            field = "size" },
        { "pool", "pool", "where received packets go (vhost)" },
        { "packets", "count", "packets of the port's own pool" },
        { "keep_num_buffers", "flag", "leave num_buffers as the device wrote "
            .. "it when a packet is sent on, as DPDK's driver does (virtio; 0)",
            default = 0 },
        { "zero_copy", "flag", "long frames stay in the guest's memory until "
            .. "they are freed; no IN_ORDER (vhost; 0)", default = 0 },
    }
end

M.list = {
    {
        name = "vhost", main = "path", open = "mr_vhost_open",
        struct = "struct mr_vhost_options",
        text = "device side of a vhost-user socket: a guest's network card",
        options = socket_options(true),
    },
    {
        name = "virtio", main = "path", open = "mr_virtio_open",
        struct = "struct mr_vhost_options",
        text = "driver side of a vhost-user socket: what a guest would be",
        options = socket_options(false),
    },
    {
        name = "null", main = "frame", open = "mr_null_open",
        struct = "struct mr_null_options",
        text = "swallows what is sent; receives a given frame, or nothing",
        options = {
            { "name", "string", "name in statistics and messages" },
            { "queues", "count", "queue pairs, 1..128 (1)", field = "pairs" },
            { "pool", "pool", "where received packets come from" },
            { "frame", "frame", "receive UDP frames of that many bytes",
                lua = true },
        },
    },
    {
        name = "pcap", main = "read", open = "mr_pcap_open",
        struct = "struct mr_pcap_options",
        text = "receives from one capture file and sends into another",
        options = {
            { "name", "string", "name in statistics and messages" },
            { "read", "string", "file to receive from, pcap or pcapng" },
            { "write", "string", "file to write what is sent" },
            { "pcapng", "flag", "write pcapng, not pcap", default = 0 },
            { "snap", "count", "bytes to write of each packet (all)" },
            { "loops", "loops", "times to repeat the file, or forever (0)" },
            { "pool", "pool", "where received packets go" },
        },
    },
    {
        name = "pipe", open = "mr_pipe_open", pair = true,
        struct = "struct mr_pipe_options",
        text = "two ports wired to each other, between tasks",
        options = {
            { "name", "string", "name in statistics and messages" },
            { "queues", "count", "queue pairs, 1..128 (1)", field = "pairs" },
            { "size", "count", "packets each way, a power of two (1024)" },
        },
    },
    {
        name = "eth", main = "devargs", open = "mr_eth_open",
        struct = "struct mr_eth_options", rest = true,
        text = "any DPDK device: net_tap0, net_af_packet0,iface=veth0, ...",
        options = {
            { "devargs", "string", "device and its arguments, as for DPDK",
                required = true },
            { "name", "string", "name in statistics and messages" },
            { "queues", "count", "queue pairs, 1..128 (1)", field = "pairs" },
            { "size", "count", "descriptors of a queue (512)" },
            { "pool", "pool", "where received packets go" },
        },
    },
}

M.by_name = {}
for _, kind in ipairs(M.list) do M.by_name[kind.name] = kind end

return M
