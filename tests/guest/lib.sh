# What the guest tests share: a back-end of ours, a real Linux guest under
# QEMU on the other end of its socket, and a way to say things to the guest.
# Sourced by tests that are called with MOONRING_BINARY WORKDIR.
#
# shellcheck shell=bash
guest_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../interop/common.sh
. "$guest_dir/../interop/common.sh"

moonring=${1:?usage: $0 MOONRING_BINARY WORKDIR}
workdir=${2:?usage: $0 MOONRING_BINARY WORKDIR}
image=$workdir/image # shared by the tests
workdir+=/$(basename "$0" .sh)

peer=10.9.0.1
guest=10.9.0.2
boot_timeout=180
command_timeout=300

run=$(mktemp -d "${TMPDIR:-/tmp}/mr-guest.XXXXXX")
sock=$run/v.sock
serial=$run/serial.log
as_user=()
qemu_pid=
commands=0

clean_up() {
    local status=$?
    trap - EXIT
    stop_guest
    moonring_clean_up
    rm -rf "$run"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

need_guest() {
    local status=0
    command -v qemu-system-x86_64 >/dev/null ||
        skip "no qemu-system-x86_64; scripts/setup.sh --test installs it"
    bash "$guest_dir/image.sh" "$image" || status=$?
    [ "$status" != 77 ] || skip "the guest's kernel package is not to be had"
    [ "$status" = 0 ] || fail "image.sh ended with status $status"
}

reflect_start() { # [,PORT_OPTIONS]
    moonring_start run reflect "vhost:$sock${1-}" --ip "$peer"
}

# One of the cores for QEMU, so that a polling worker may have another.
one_core() {
    [ "$(nproc)" = 1 ] || echo taskset -c "$(first_cpu)"
}

# The serial line is a pair of pipes: commands go in, and what comes out is
# both the test's own output and a log that is searched for answers.
open_serial() {
    rm -f "$run"/{serial,monitor}.{in,out}
    mkfifo "$run"/{serial,monitor}.{in,out}
    : >"$serial" # now, or the last guest's words would be taken for this one's
    sed -u 's/\r$//' <"$run/serial.out" | tee "$serial" &
    serial_pid=$!
    cat "$run/monitor.out" >"$run/monitor.log" &
}

# vectors=0: QEMU 7.2 under TCG crashes with MSI-X and vhost-user.
# no_timer_check: on a busy machine emulated ticks come late enough to panic.
start_guest() { # CHARDEV_OPTIONS DEVICE_OPTIONS
    local device=virtio-net-pci,netdev=n0,mac=52:54:00:00:00:01
    local kernel="console=ttyS0 panic=1 quiet no_timer_check"
    say "guest with ${1:+chardev $1, }$2"
    open_serial
    # shellcheck disable=SC2046
    $(one_core) qemu-system-x86_64 \
        -accel tcg -cpu max -m 256 -display none -nodefaults \
        -object memory-backend-memfd,id=mem,size=256M,share=on \
        -numa node,memdev=mem \
        -kernel "$image/vmlinuz" -initrd "$image/initrd.gz" \
        -append "$kernel mr.addr=$guest/24 mr.mtu=1500" \
        -serial "pipe:$run/serial" \
        -chardev "pipe,id=monitor,path=$run/monitor" -mon monitor \
        -chardev "socket,id=c0,path=$sock${1:+,$1}" \
        -netdev vhost-user,id=n0,chardev=c0,queues=1 \
        -device "$device,disable-legacy=on,romfile=,vectors=0,$2" \
        >"$run/qemu.log" 2>&1 &
    qemu_pid=$!
    boots=0
}

stop_guest() {
    [ -n "$qemu_pid" ] || return 0
    end_process TERM "$qemu_pid" || true
    wait "$serial_pid" 2>/dev/null || true
    qemu_pid=
}

count_ready() {
    grep -c '^mr: ready' "$serial" || true
}

is_ready() {
    alive "$qemu_pid" || fail "QEMU ended"
    [ "$(count_ready)" -gt "$boots" ]
}

# The next boot since start_guest, that is, also the one after a reset.
wait_boot() {
    wait_until "$boot_timeout" is_ready ||
        fail "guest not up after $boot_timeout s"
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
    alive "$qemu_pid" || fail "QEMU ended"
    grep -q "^mr: done $commands " "$serial"
}

in_guest() { # COMMAND: its exit status is ours
    tell_guest "$1"
    wait_until "$command_timeout" is_done ||
        fail "no end after $command_timeout s of: $1"
    [ "$(sed -n "s/^mr: done $commands //p" "$serial" | tail -n 1)" = 0 ]
}

# busybox's ping is content with one answer; we are not, nor with two to one.
ping_peer() { # COUNT BYTES [OPTION...]
    local tally="$1 packets transmitted, $1 packets received, 0% packet loss"
    in_guest "ping -c $1 -s $2 ${*:3} $peer" ||
        fail "no answer to pings of $2 bytes"
    [ "$(grep 'packets transmitted' "$serial" | tail -n 1)" = "$tally" ] ||
        fail "answers to pings of $2 bytes are not one to one"
}
