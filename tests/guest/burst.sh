#!/usr/bin/env bash
# A thousand packets each way and none lost: pings that follow each other
# without a pause, large ones in fragments, and bursts that fit into the ring.
# usage: burst.sh MOONRING_BINARY WORKDIR
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

burst_all() { # DEVICE_OPTIONS
    reflect_start
    moonring_wait_socket "$sock"
    start_guest "" "$1"
    wait_boot
    ping_peer 1000 56 -A -q
    ping_peer 100 14720 -A -q
    for _ in 1 2 3 4 5 6 7 8; do
        in_guest "burst 125 $peer" || fail "burst: packets lost"
    done
    stop_guest
    moonring_stop
}

need_guest
burst_all packed=off
burst_all packed=on
burst_all packed=on,event_idx=off,indirect_desc=off
say "no packet lost"
