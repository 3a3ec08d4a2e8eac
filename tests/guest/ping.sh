#!/usr/bin/env bash
# A real Linux driver, both ring layouts, mergeable buffers on and off: pings
# of every kind of size through `moonring run reflect`, from one byte over the
# last that fits a frame to the largest that IPv4 can carry, in fragments.
# usage: ping.sh MOONRING_BINARY WORKDIR
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

sizes=(1 56 1472 1473 2960 9000 32768 65507)

ping_all() { # DEVICE_OPTIONS
    local size
    backend_start
    backend_wait_socket
    start_guest "" "$1"
    wait_boot
    for size in "${sizes[@]}"; do
        ping_peer 3 "$size"
    done
    stop_guest
    backend_stop TERM
}

need_guest
for packed in off on; do
    for mergeable in on off; do
        ping_all "packed=$packed,mrg_rxbuf=$mergeable"
    done
done
say "all pings answered"
