# DPDK's testpmd as the peer: started on one side of a socket, told things
# over its standard input, its counters read back. Sourced after common.sh.
#
# shellcheck shell=bash disable=SC2154
testpmd_pid=

# DPDK 22.11 under an ordinary user wants --no-huge, and so does a machine
# without free hugepages; --in-memory leaves no file in /dev/hugepages.
memory_options() {
    local free
    free=$(awk '/^HugePages_Free/ { n = $2 } /^Hugepagesize/ { kb = $2 }
        END { print int(n * kb / 1024) }' /proc/meminfo)
    if [ "${#as_user[@]}" = 0 ] && [ "$(id -u)" = 0 ] && [ "$free" -ge 256 ]
    then
        echo --in-memory -m 128
    else
        echo --no-huge --no-shconf -m 128
    fi
}

# Both lcores on one CPU, for the main one sleeps. Without
# --single-file-segments the driver side moves nothing and exits 0.
testpmd_start() { # VDEV
    local cpu options
    cpu=$(first_cpu)
    options=$(memory_options)
    say "testpmd $1 ($options)"
    rm -f "$run/testpmd.in"
    : >"$run/testpmd.log"
    mkfifo "$run/testpmd.in"
    # Open both ways: nobody waits for the other end or dies of its absence.
    exec {testpmd_in}<>"$run/testpmd.in"
    # shellcheck disable=SC2086
    "${as_user[@]}" stdbuf -oL dpdk-testpmd --lcores "0@$cpu,1@$cpu" \
        --no-pci --no-telemetry --iova-mode=va --single-file-segments \
        --file-prefix="mr$$" $options --vdev "$1" \
        --log-level=pmd.net.virtio.init:debug \
        --log-level=lib.vhost.config:info \
        -- -i --nb-cores=1 --total-num-mbufs=8192 --tx-offloads=0x8000 \
        <&"$testpmd_in" >"$run/testpmd.log" 2>&1 &
    testpmd_pid=$!
    testpmd_forwards=0
    wait_until 60 testpmd_says '^Done' || fail "testpmd did not start"
}

testpmd_stop() {
    [ -n "$testpmd_pid" ] || return 0
    echo quit >&"$testpmd_in"
    wait_until 20 gone "$testpmd_pid" || true
    end_process TERM "$testpmd_pid" || true
    testpmd_pid=
    exec {testpmd_in}>&-
}

testpmd_says() { # PATTERN [TIMES]
    alive "$testpmd_pid" || fail "testpmd ended"
    [ "$(grep -c "$1" "$run/testpmd.log")" -ge "${2:-1}" ]
}

# Says COMMAND and waits for one more line of its answer like PATTERN.
testpmd_ask() { # COMMAND PATTERN
    local before
    before=$(grep -c "$2" "$run/testpmd.log" || true)
    echo "$1" >&"$testpmd_in"
    wait_until 60 testpmd_says "$2" $((before + 1)) ||
        fail "testpmd does not answer to: $1"
}

# From whatever it did before to MODE.
testpmd_forward() { # MODE [tx_first]
    [ "$testpmd_forwards" = 0 ] || testpmd_halt
    testpmd_ask "set fwd $1" "^Set $1 packet forwarding mode"
    testpmd_ask "start${2:+ $2}" "nb forwarding cores="
    testpmd_forwards=1
}

testpmd_halt() {
    testpmd_ask stop '^Done\.'
    testpmd_forwards=0
}

# Sets peer_rx_packets, peer_rx_bytes, peer_tx_packets, peer_tx_bytes.
testpmd_counters() {
    testpmd_ask "show port stats 0" '^ *####*$'
    read -r peer_rx_packets peer_rx_bytes peer_tx_packets peer_tx_bytes < <(
        awk '/RX-packets:.*RX-bytes:/ { rx = $2 " " $NF }
            /TX-packets:.*TX-bytes:/ { tx = $2 " " $NF }
            END { print rx, tx }' "$run/testpmd.log")
}

# Takes in what is still on its way, until for a second nothing more came.
testpmd_drain() {
    local before quiet=0
    testpmd_forward rxonly
    testpmd_counters
    while [ "$quiet" -lt 4 ]; do
        before=$peer_rx_packets
        sleep 0.25
        testpmd_counters
        [ "$peer_rx_packets" = "$before" ] && quiet=$((quiet + 1)) || quiet=0
    done
    testpmd_halt
}

# What was negotiated is what testpmd says: the bits of one feature word.
require_feature() { # FEATURES BIT WANTED NAME
    local got=$(($1 >> $2 & 1))
    [ "$got" = "$3" ] || fail "$4 negotiated as $got, asked for $3"
}
