#!/usr/bin/env bash
# A real Linux driver, both ring layouts, mergeable buffers on and off: pings
# of every kind of size through `moonring run reflect`, from one byte over the
# last that fits a frame to the largest that IPv4 can carry, in fragments.
# usage: ping.sh MOONRING_BINARY WORKDIR
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

sizes=(1 56 1472 1473 2960 9000 32768 65507)

ping_all() { # DEVICE_OPTIONS
    local size
    reflect_start
    moonring_wait_socket "$sock"
    start_guest "" "$1"
    wait_boot
    for size in "${sizes[@]}"; do
        ping_peer 3 "$size" -i 0.2
    done
    stop_guest
    moonring_stop
}

need_guest
for packed in off on; do
    for mergeable in on off; do
        ping_all "packed=$packed,mrg_rxbuf=$mergeable"
    done
done
say "all pings answered"
