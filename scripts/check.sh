#!/usr/bin/env bash
# Builds everything and runs every test: first those that have a sanitized
# twin, then all of them on the release build, so that ctest's own closing
# lines for the whole come last.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The variable speaks for new build trees only; others keep their generator.
! command -v ninja >/dev/null || export CMAKE_GENERATOR=Ninja

hugepages=/proc/sys/vm/nr_hugepages
failed=()

build() { # DIR [CMAKE OPTION...]; $target: all of it unless set
    local dir=$1 log=$1/build.log
    shift
    echo "== build $dir"
    mkdir -p "$dir"
    cmake -S . -B "$dir" -DBUILD_TESTING=ON "$@" >"$log" 2>&1 &&
        cmake --build "$dir" -j "$(nproc)" --target "${target:-all}" \
            >>"$log" 2>&1 && return
    cat "$log" >&2
    echo "check.sh: cannot build $dir: see the lines above" >&2
    exit 1
}

run_tests() { # DIR [CTEST OPTION...]
    local dir=$1
    shift
    echo "== test $dir"
    ctest --test-dir "$dir" -j "$(nproc)" --output-on-failure \
        --no-tests=error "$@" || failed+=("$dir")
}

# Everything must work without hugepages; with them the tests see more code.
reserve_hugepages() {
    [ "$(id -u)" = 0 ] && [ -w "$hugepages" ] || return 0
    local before
    before=$(cat "$hugepages")
    if [ "$before" -lt 512 ]; then
        trap 'echo '"$before >$hugepages" EXIT
        echo 512 >"$hugepages" 2>/dev/null || true
    fi
    mountpoint -q /dev/hugepages || {
        mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages
    } 2>/dev/null || true
}

scripts/setup.sh --test
reserve_hugepages

build build -DCMAKE_BUILD_TYPE=Release
# Both compilers have to like all of it; gcc does the rest.
build build-asan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSANITIZER=address \
    -DCMAKE_C_COMPILER=clang
target=tsan_tests build build-tsan -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DSANITIZER=thread

run_tests build-asan -L 'unit|matrix|stress'
run_tests build-tsan -L tsan
[ "${#failed[@]}" = 0 ] || echo "check.sh: tests failed in ${failed[*]}" >&2
run_tests build
[ "${#failed[@]}" = 0 ]
