# What the guest tests share: a back-end of ours, a real Linux guest under
# QEMU on the other end of its socket, and a way to say things to the guest.
# Sourced by tests that are called with MOONRING_BINARY WORKDIR.
#
# shellcheck shell=bash
set -euo pipefail

guest_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
moonring=${1:?usage: $0 MOONRING_BINARY WORKDIR}
mkdir -p "${2:?usage: $0 MOONRING_BINARY WORKDIR}"
workdir=$(cd "$2" && pwd)

peer=10.9.0.1
guest=10.9.0.2
boot_timeout=180
command_timeout=300

qemu_pid=
backend_pid=
serial_pid=
commands=0
# Sockets live here and not in WORKDIR: their paths have room for 107 bytes.
run=$(mktemp -d "${TMPDIR:-/tmp}/mr-guest.XXXXXX")
sock=$run/v.sock
log=$run/serial.log

say() {
    echo "== $*"
}

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# On the CI machine nothing is allowed to be absent.
skip() {
    [ "${CI-}" != true ] || fail "$*"
    echo "SKIPPED: $*"
    exit 77
}

clean_up() {
    local status=$?
    trap - EXIT
    stop_guest
    backend_stop TERM
    rm -rf "$run"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

need_guest() {
    local status=0
    command -v qemu-system-x86_64 >/dev/null ||
        skip "no qemu-system-x86_64; scripts/setup.sh --test installs it"
    image=$workdir/image
    bash "$guest_dir/image.sh" "$image" || status=$?
    [ "$status" != 77 ] || skip "the guest's kernel package is not to be had"
    [ "$status" = 0 ] || fail "image.sh ended with status $status"
}

# One of two cores for QEMU, so that a polling worker may have the other.
on_one_core() {
    local cpus
    cpus=$(taskset -cp $$ | sed 's/.*: //')
    case $cpus in
    *[,-]*) taskset -c "${cpus%%[,-]*}" "$@" ;;
    *) "$@" ;;
    esac
}

wait_until() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.1
    done
}

alive() { # PID
    [ -n "$1" ] && kill -0 "$1" 2>/dev/null
}

# ---- our side

backend_start() { # [OPTION...]
    say "moonring run reflect $sock --ip $peer $*"
    "$moonring" run reflect "$sock" --ip "$peer" "$@" >>"$run/backend.log" \
        2>&1 &
    backend_pid=$!
}

socket_there() {
    alive "$backend_pid" || fail_with_backend "moonring ended at its start"
    [ -S "$sock" ]
}

backend_wait_socket() {
    wait_until 60 socket_there || fail_with_backend "moonring made no socket"
}

fail_with_backend() {
    cat "$run/backend.log" >&2
    fail "$*"
}

# With KILL it has no chance to say good-bye; else it must exit with 0.
backend_stop() { # SIGNAL
    local status=0
    [ -n "$backend_pid" ] || return 0
    kill -s "$1" "$backend_pid" 2>/dev/null || true
    wait "$backend_pid" 2>/dev/null || status=$?
    backend_pid=
    [ "$1" = KILL ] || [ "$status" = 0 ] || {
        cat "$run/backend.log" >&2
        echo "FAILED: moonring ended with status $status on SIG$1" >&2
        return 1
    }
}

# ---- the guest

# The serial line is a pair of pipes: commands go in, and what comes out is
# both the test's own output and $log.
open_serial() {
    rm -f "$run"/{serial,monitor}.{in,out}
    mkfifo "$run"/{serial,monitor}.{in,out}
    sed -u 's/\r$//' <"$run/serial.out" | tee "$log" &
    serial_pid=$!
    cat "$run/monitor.out" >"$run/monitor.log" &
}

start_guest() { # CHARDEV_OPTIONS DEVICE_OPTIONS
    say "guest: chardev ${1:-client}, device ${2:-defaults}"
    open_serial
    on_one_core qemu-system-x86_64 \
        -accel tcg -cpu max -m 256 -display none -nodefaults \
        -object memory-backend-memfd,id=mem,size=256M,share=on \
        -numa node,memdev=mem \
        -kernel "$image/vmlinuz" -initrd "$image/initrd.gz" \
        -append "console=ttyS0 panic=1 quiet mr.addr=$guest/24 mr.mtu=1500" \
        -serial "pipe:$run/serial" \
        -chardev "pipe,id=monitor,path=$run/monitor" -mon monitor \
        -chardev "socket,id=c0,path=$sock${1:+,$1}" \
        -netdev vhost-user,id=n0,chardev=c0,queues=1 \
        -device "virtio-net-pci,netdev=n0,mac=52:54:00:00:00:01,$(
        )disable-legacy=on,romfile=,vectors=0${2:+,$2}" \
        >"$run/qemu.log" 2>&1 &
    qemu_pid=$!
    boots=0
}

count_ready() {
    grep -c '^mr: ready' "$log" || true
}

is_ready() {
    alive "$qemu_pid" || fail_with_qemu "QEMU ended"
    [ "$(count_ready)" -gt "$boots" ]
}

fail_with_qemu() {
    cat "$run/qemu.log" "$run/backend.log" >&2
    fail "$*"
}

# The next boot since start_guest, that is, also the one after a reset.
wait_boot() {
    wait_until "$boot_timeout" is_ready ||
        fail_with_qemu "guest not up after $boot_timeout s"
    boots=$(count_ready)
}

# Opened for reading too: so it does not wait for a QEMU that is gone.
tell_guest() { # COMMAND
    commands=$((commands + 1))
    echo "$commands $1" 1<>"$run/serial.in"
}

monitor() { # COMMAND
    echo "$1" 1<>"$run/monitor.in"
}

is_done() {
    alive "$qemu_pid" || fail_with_qemu "QEMU ended during: $last"
    grep -q "^mr: done $commands " "$log"
}

in_guest() { # COMMAND: its exit status is ours
    last=$1
    tell_guest "$1"
    wait_until "$command_timeout" is_done ||
        fail_with_qemu "no end after $command_timeout s of: $1"
    [ "$(sed -n "s/^mr: done $commands //p" "$log" | tail -n 1)" = 0 ]
}

# busybox's ping is content with one answer; we are not, nor with two to one.
ping_peer() { # COUNT BYTES [OPTION...]
    local tally="$1 packets transmitted, $1 packets received, 0% packet loss"
    in_guest "ping -c $1 -s $2 ${*:3} $peer" ||
        fail_with_qemu "no answer to pings of $2 bytes"
    [ "$(grep 'packets transmitted' "$log" | tail -n 1)" = "$tally" ] ||
        fail_with_qemu "answers to pings of $2 bytes are not one to one"
}

stop_guest() {
    [ -n "$qemu_pid" ] || return 0
    kill "$qemu_pid" 2>/dev/null || true
    wait "$qemu_pid" 2>/dev/null || true
    wait "$serial_pid" 2>/dev/null || true
    qemu_pid=
}
