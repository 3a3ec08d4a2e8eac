#!/usr/bin/env bash
# Builds the programs that moonring bench ablation compares with: one without
# each technique of core/base/technique.h, and the three orderings of
# core/ring/order_builds.h, as DIR/NAME/bin/moonring. Both from the same source
# and flags (T70); what is built already is kept up to date.
set -euo pipefail

usage() {
    echo "usage: tests/bench/ablation.sh DIR [NAME...]"
    echo "  NAME: lines, order_c11 and so on; all of them by default"
}

[ "${1-}" != --help ] || { usage && exit 0; }
[ $# -ge 1 ] || { usage >&2 && exit 2; }
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
dir=$1
shift
readonly orders="order_merged order_c11 order_control"

! command -v ninja >/dev/null || export CMAKE_GENERATOR=Ninja

techniques() {
    sed -nE 's/^ +X\(([A-Z_]+), ".*/\L\1/p' "$source/core/base/technique.h"
}

build() { # NAME CMAKE-OPTION
    local log=$dir/$1/build.log
    mkdir -p "$dir/$1"
    echo "$1"
    cmake -S "$source" -B "$dir/$1" -DCMAKE_BUILD_TYPE=Release \
        -DBUILD_TESTING=OFF "$2" >"$log" 2>&1 &&
        cmake --build "$dir/$1" -j "${JOBS:-$(nproc)}" --target moonring \
            >>"$log" 2>&1 && return
    tail -n 20 "$log" >&2
    echo "ablation.sh: cannot build $1: see $log" >&2
    exit 1
}

names=("$@")
[ $# -gt 0 ] || mapfile -t names < <(techniques && printf '%s\n' $orders)
for name in "${names[@]}"; do
    case $name in
    order_*) build "$name" "-DMR_ORDER_BUILD=${name#order_}" ;;
    *) build "$name" "-DMR_WITHOUT=$name" ;;
    esac
done
