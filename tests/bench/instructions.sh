#!/usr/bin/env bash
# Counts the instructions per packet of every path and step under callgrind
# and compares them with instructions.txt: more than 3 % above fails, more than
# 3 % below asks for an update. Counts are exact, but belong to a compiler and
# a CPU level: with others than the file names there is nothing to compare.
set -euo pipefail

usage() {
    echo "usage: tests/bench/instructions.sh STEPS [--update]"
    echo "  STEPS: the program build/bin/steps of a release build"
    echo "  --update: write what was counted to instructions.txt"
}

[ "${1-}" != --help ] || { usage && exit 0; }
[ $# -ge 1 ] && [ $# -le 2 ] && [ "${2---update}" = --update ] ||
    { usage >&2 && exit 2; }
steps=$1
update=${2-}
file=$(dirname "${BASH_SOURCE[0]}")/instructions.txt
readonly skip=77
export MR_CPU_LEVEL=avx2 # at most: valgrind knows no AVX-512

command -v valgrind >/dev/null ||
    { echo "no valgrind here: scripts/setup.sh --test" && exit $skip; }

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# One line a cell: level, path, step, instructions per packet. callgrind
# numbers its dumps as the program numbers its lines. It needs symbols, but not
# all debug information can it read.
count() {
    local n=0 level path step packets total
    objcopy --strip-debug "$steps" "$dir/steps"
    valgrind --tool=callgrind --callgrind-out-file="$dir/dump" \
        --toggle-collect='steps_measured*' --dump-before='steps_cell_end*' \
        "$dir/steps" >"$dir/cells" 2>"$dir/log" ||
        { cat "$dir/log" >&2 && return 1; }
    while read -r level path step packets; do
        n=$((n + 1))
        total=$(sed -n 's/^totals: //p' "$dir/dump.$n")
        [ "$total" -gt 0 ] || { echo "$path $step: no count" >&2 && return 1; }
        awk -v level="$level" -v path="$path" -v step="$step" \
            -v per="$total/$packets" 'BEGIN {
                split(per, part, "/")
                printf "%-9s %-28s %-10s %7.2f\n", level, path, step,
                    part[1] / part[2]
            }'
    done <"$dir/cells"
}

build=$("$steps" --build)
head="# $build
# Instructions per packet: 60 bytes, ring 256, burst 32, steady state."
count >"$dir/now"
[ -s "$dir/now" ] || { echo "no cell was counted" >&2 && exit 1; }

if [ -n "$update" ]; then
    { echo "$head" && cat "$dir/now"; } >"$file"
    echo "$(wc -l <"$dir/now") figures in $file"
    exit 0
fi

# "gcc 12 avx2" of "# gcc 12.2.0, CPU level avx2"
essence() {
    sed -nE 's/^[# ]*([a-z]+ [0-9]+).*CPU level ([a-z0-9]+).*/\1 \2/p' <<<"$1"
}

recorded=$(head -n 1 "$file")
if [ "$(essence "$recorded")" != "$(essence "$build")" ]; then
    cat "$dir/now"
    echo "not compared: this is $build; the file says: $recorded"
    exit $skip
fi

awk '
    FNR == NR { if (!/^#/) was[$1 " " $2 " " $3] = $4; next }
    {
        cell = $1 " " $2 " " $3
        seen[cell] = 1
        if (!(cell in was)) {
            note = "FAIL: not in the file, run with --update"; failed++
        } else if ($4 > was[cell] * 1.03) {
            note = "FAIL: more than 3 % above"; failed++
        } else if ($4 < was[cell] * 0.97) {
            note = "better: run with --update"
        } else {
            note = "ok"
        }
        printf "%-9s %-28s %-10s %7.2f  was %7.2f  %s\n", $1, $2, $3, $4,
            was[cell], note
    }
    END {
        for (cell in was) if (!(cell in seen)) {
            print "FAIL: no such cell any more:", cell; failed++
        }
        printf "%d cells, %d worse, missing or new\n", length(seen), failed
        exit failed > 0
    }' "$file" "$dir/now"
