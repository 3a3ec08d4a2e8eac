#!/usr/bin/env bash
# The same back-end serves a guest that reboots, by its own will and by reset;
# the same guest goes on when its back-end was killed and started again, with
# QEMU as the one that connects and as the one that listens.
# usage: reboot.sh MOONRING_BINARY WORKDIR
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

reboot_guest() { # DEVICE_OPTIONS
    reflect_start
    moonring_wait_socket "$sock"
    start_guest "" "$1"
    wait_boot
    ping_peer 3 56
    say "guest reboots"
    tell_guest "reboot -f"
    wait_boot
    ping_peer 3 56
    say "reset from outside, no good-bye"
    monitor system_reset
    wait_boot
    ping_peer 3 1473
    stop_guest
    moonring_stop
}

restart_reflect() {
    say "moonring is killed and started again"
    moonring_kill
    reflect_start "$@"
}

# Nothing passes until QEMU has found the new back-end.
ping_again() {
    wait_until 60 in_guest "ping -c 1 -W 2 $peer" ||
        fail "no ping after moonring came back"
    ping_peer 3 56
    ping_peer 3 4000
}

qemu_reconnects() {
    reflect_start
    moonring_wait_socket "$sock"
    start_guest reconnect=1 packed=off
    wait_boot
    ping_peer 3 56
    restart_reflect
    ping_again
    stop_guest
    moonring_stop
}

qemu_listens() {
    rm -f "$sock"
    reflect_start ,server=0
    start_guest server=on,wait=off packed=off
    wait_boot
    ping_peer 3 56
    restart_reflect ,server=0
    ping_again
    stop_guest
    moonring_stop
}

# The position in a packed ring dies with the back-end (no in-flight area is
# negotiated), so here the guest must start its device anew.
packed_reconnects() {
    reflect_start
    moonring_wait_socket "$sock"
    start_guest reconnect=1 packed=on
    wait_boot
    ping_peer 3 56
    restart_reflect
    moonring_wait_socket "$sock"
    monitor system_reset
    wait_boot
    ping_again
    stop_guest
    moonring_stop
}

need_guest
reboot_guest packed=off
reboot_guest packed=on
qemu_reconnects
qemu_listens
packed_reconnects
say "guest and back-end came back every time"
