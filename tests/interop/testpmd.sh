#!/usr/bin/env bash
# DPDK's testpmd against one side of ours in one ring layout. As "device" we
# are the back-end and testpmd's net_virtio_user drives; as "driver" we drive
# and testpmd's net_vhost is the back-end. Traffic of small frames, then of
# frames in several pieces, is reflected by us; then one way only. At the end
# both sides must have counted the same, packets and bytes.
#
# usage: testpmd.sh MOONRING WORKDIR device|driver split|packed MRG IN_ORDER
#                   [user]
# MRG and IN_ORDER are 0 or 1; with "user", both run without hugepages as an
# ordinary user.
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=common.sh
. "$here/common.sh"
# shellcheck source=peer.sh
. "$here/peer.sh"

[ $# -ge 6 ] || { sed -n 's/^# \(usage:\)/\1/p' "$0" >&2 && exit 2; }
moonring=$1 workdir=$2 side=$3 layout=$4 mrg=$5 in_order=$6 user=${7-}
workdir+=/$side-$layout-mrg$mrg-inorder$in_order$user
run=$(mktemp -d "${TMPDIR:-/tmp}/mr-testpmd.XXXXXX")
sock=$run/v.sock
as_user=()
packed=$([ "$layout" = packed ] && echo 1 || echo 0)
load_count=10000

clean_up() {
    local status=$?
    trap - EXIT
    testpmd_stop
    moonring_clean_up
    rm -rf "$run"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# An ordinary user cannot look into a clone under /root: then what a user
# would have installed is used.
become_user() {
    [ "$(id -u)" = 0 ] || return 0
    chmod 755 "$run"
    mkdir "$run/home" && chown nobody "$run" "$run/home"
    as_user=(setpriv --reuid=nobody --regid=nogroup --clear-groups
        env HOME="$run/home" XDG_RUNTIME_DIR="$run/home")
    "${as_user[@]}" test -x "$moonring" && return
    cmake --install "$(dirname "$(dirname "$moonring")")" \
        --prefix "$run/usr" >"$run/install.log" 2>&1 ||
        fail "cannot install moonring where nobody can run it"
    moonring=$run/usr/bin/moonring
}

device_spec=vhost:$sock
driver_spec=virtio:$sock,packed=$packed,mrg_rxbuf=$mrg,in_order=$in_order
driver_spec+=,queue_size=256
peer_driver=net_virtio_user0,path=$sock,queues=1,queue_size=256
peer_driver+=,packed_vq=$packed,mrg_rxbuf=$mrg,in_order=$in_order

# The back-end comes first: a driver needs the socket. The peer takes in all
# that comes from the first packet on.
start_both() { # SCRIPT [OPTION...]
    rm -f "$sock"
    if [ "$side" = device ]; then
        moonring_start run "$1" "$device_spec" --json "${@:2}"
        moonring_wait_socket "$sock"
        testpmd_start "$peer_driver"
        testpmd_forward rxonly
    else
        testpmd_start "net_vhost0,iface=$sock,queues=1"
        testpmd_forward rxonly
        moonring_start run "$1" "$driver_spec" --json "${@:2}"
    fi
    wait_until 60 testpmd_says "$ready_line" || fail "the link did not come up"
    check_features
}

# How testpmd says that the link is up, and what was agreed on.
if [ "$side" = device ]; then
    ready_line='^Done'
    features_line='features after negotiate = '
else
    ready_line='virtio is now ready for processing'
    features_line='negotiated Virtio features: 0x'
fi

check_features() {
    local word
    word=0x$(sed -n "s/.*$features_line//p" "$run/testpmd.log" | tail -n 1)
    require_feature "$word" 34 "$packed" packed
    require_feature "$word" 15 "$mrg" mergeable
    require_feature "$word" 35 "$in_order" in-order
    require_feature "$word" 32 1 "version 1"
}

# Sum over the queues of one direction of the last moonring; 0 when absent.
ours() { # rx|tx KEY
    sed -n "/\"dir\": *\"$1\"/s/.*\"$2\": *\([0-9]*\).*/\1/p" \
        "$run/moonring.out" | awk '{ n += $1 } END { printf "%.0f\n", n }'
}

same() { # WHAT COUNT COUNT
    say "$1: $2 and $3"
    [ "$2" = "$3" ] || fail "$1 differ"
}

# What testpmd sent is what we received, and the other way around.
same_counters() {
    local unit
    for unit in packets bytes; do
        local theirs=peer_tx_$unit
        same "$unit to us" "$(ours rx "$unit")" "${!theirs}"
        theirs=peer_rx_$unit
        same "$unit from us" "$(ours tx "$unit")" "${!theirs}"
    done
}

no_faults() {
    ! grep '"faults": *{[^}]' "$run/moonring.out" ||
        fail "a peer that keeps the rules was found at fault"
}

at_least() { # WHAT COUNT FLOOR
    [ "$2" -ge "$3" ] || fail "$1: only $2, expected $3 or more"
}

# A frame in three pieces; mergeable ones need three buffers at the far end.
pieces=64,200,500
[ "$mrg" = 0 ] || pieces=1400,1400,1400

# As fast as it goes: what finds no room at the peer may be dropped.
reflect_flood() {
    testpmd_forward flowgen
    sleep 1
    testpmd_drain
    at_least "small frames back" "$peer_rx_packets" 1000
}

# One burst goes around and around: no ring can be full, no frame be lost.
reflect_circle() {
    local sent=$peer_tx_packets back=$peer_rx_packets
    testpmd_ask "set txpkts $pieces" 'testpmd> '
    testpmd_forward macswap tx_first
    sleep 1
    testpmd_drain
    sent=$((peer_tx_packets - sent)) back=$((peer_rx_packets - back))
    at_least "frames in pieces" "$sent" 1000
    same "frames in pieces, sent and back" "$back" "$sent"
}

reflect() {
    start_both reflect
    reflect_flood
    reflect_circle
    moonring_stop
    no_faults
    same_counters
    same "frames in and out" "$(ours rx packets)" \
        $(($(ours tx packets) + $(ours tx dropped)))
    testpmd_stop
}

swallow() {
    start_both sink
    testpmd_forward txonly
    sleep 1
    testpmd_drain
    at_least "frames sent" "$peer_tx_packets" 1000
    moonring_stop
    no_faults
    same_counters
    testpmd_stop
}

generate() {
    start_both load --count "$load_count" --rate 20kpps
    wait_until 60 gone "$moonring_pid" || fail "load did not end by itself"
    wait "$moonring_pid" || fail "load ended with status $?"
    moonring_pid=
    cat "$run/moonring.out"
    no_faults
    testpmd_counters
    same_counters
    same "frames asked for" "$load_count" "$peer_rx_packets"
    testpmd_stop
}

command -v dpdk-testpmd >/dev/null ||
    skip "no dpdk-testpmd; scripts/setup.sh --test installs it"
[ "$user" != user ] || become_user
reflect
if [ "$side" = device ]; then swallow; else generate; fi
say "agreed"
