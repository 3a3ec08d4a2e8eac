#!/usr/bin/env bash
# The same back-end serves a guest that reboots, by its own will and by reset;
# the same guest goes on when its back-end was killed and started again, with
# QEMU as the one that connects and as the one that listens.
# usage: reboot.sh MOONRING_BINARY WORKDIR
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

reboot_guest() { # DEVICE_OPTIONS
    backend_start
    backend_wait_socket
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
    backend_stop TERM
}

restart_backend() {
    say "moonring is killed and started again"
    backend_stop KILL
    backend_start "$@"
}

# Nothing passes until QEMU has found the new back-end.
ping_again() {
    wait_until 60 in_guest "ping -c 1 -W 2 $peer" ||
        fail_with_qemu "no ping after moonring came back"
    ping_peer 3 56
    ping_peer 3 4000
}

qemu_reconnects() {
    backend_start
    backend_wait_socket
    start_guest reconnect=1 packed=off
    wait_boot
    ping_peer 3 56
    restart_backend
    ping_again
    stop_guest
    backend_stop TERM
}

qemu_listens() {
    rm -f "$sock"
    backend_start --client
    start_guest server=on,wait=off packed=off
    wait_boot
    ping_peer 3 56
    restart_backend --client
    ping_again
    stop_guest
    backend_stop TERM
}

# The position in a packed ring dies with the back-end (no in-flight area is
# negotiated), so here the guest must start its device anew.
packed_reconnects() {
    backend_start
    backend_wait_socket
    start_guest reconnect=1 packed=on
    wait_boot
    ping_peer 3 56
    restart_backend
    backend_wait_socket
    monitor system_reset
    wait_boot
    ping_again
    stop_guest
    backend_stop TERM
}

need_guest
reboot_guest packed=off
reboot_guest packed=on
qemu_reconnects
qemu_listens
packed_reconnects
say "guest and back-end came back every time"
