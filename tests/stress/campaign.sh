#!/usr/bin/env bash
# The long stress: 10^8 numbered packets each way on every path with every set
# of features, then a tenth of it in the other modes and on the lower CPU
# levels. Takes some hours; prints a line a run and stops at the first failure.
set -euo pipefail

usage() {
    echo "usage: tests/stress/campaign.sh STRESS [PACKETS]"
    echo "  STRESS: the program build/bin/stress of a release build"
    echo "  PACKETS: each way and run, 100000000 unless given"
}

[ "${1-}" != --help ] || { usage && exit 0; }
[ $# -ge 1 ] && [ $# -le 2 ] && [[ ${2-100} =~ ^[1-9][0-9]+$ ]] ||
    { usage >&2 && exit 2; }
stress=$1
packets=${2-100000000}

echo "== $(date '+%F %T') every path"
"$stress" --mode plain --packets "$packets"
for mode in capped checked spliced; do
    echo "== $(date '+%F %T') every path, $mode"
    "$stress" --mode "$mode" --packets $((packets / 10))
done
for level in baseline avx2; do
    echo "== $(date '+%F %T') CPU level $level at most"
    MR_CPU_LEVEL=$level "$stress" --packets $((packets / 10))
done
echo "== $(date '+%F %T') done"
