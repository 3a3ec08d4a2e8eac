#!/usr/bin/env bash
# Installs the Debian packages that Moonring is built from (with --test: also
# what its tests use) and nothing else. When all are there, which one dpkg
# query tells, it says nothing, needs no root and is done in milliseconds.
set -euo pipefail

build_packages=(
    gcc libc6-dev make cmake pkg-config
    libdpdk-dev libluajit-5.1-dev libuv1-dev libpcap-dev
    lua-argparse lua-cjson
)
test_packages=(
    clang clang-format libclang-rt-14-dev           # second compiler, style
    libcmocka-dev luajit lua-check python3          # unit tests, Lua, lint
    valgrind binutils                               # instruction counts
    dpdk-dev tshark iproute2                        # the other ends
    qemu-system-x86 busybox-static cpio             # a real guest
)

usage() {
    echo "usage: scripts/setup.sh [--test]"
}

fail() {
    echo "setup.sh: $*" >&2
    exit 1
}

missing_of() {
    local installed
    installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" \
        2>/dev/null | sed -n 's/ installed$//p' || true)
    comm -23 <(printf '%s\n' "$@" | sort -u) <(sort -u <<<"$installed")
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        fail "cannot install ${missing[*]}: not root and no sudo;" \
            "as root run: apt-get install ${missing[*]}"
    fi
}

# Output is shown only when it tells why something failed.
apt() {
    local log status=0
    log=$(mktemp)
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq \
        -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" \
        </dev/null >"$log" 2>&1 || status=$?
    [ "$status" = 0 ] || tail -n 20 "$log" >&2
    rm -f "$log"
    return "$status"
}

packages=("${build_packages[@]}")
case "${1-}" in
'') ;;
--test) packages+=("${test_packages[@]}") ;;
-h | --help) usage && exit 0 ;;
*) usage >&2 && exit 2 ;;
esac

command -v dpkg-query >/dev/null ||
    fail "cannot see which packages are there: no dpkg on this system;" \
        "Moonring is made for Debian 12, elsewhere install the like of:" \
        "${packages[*]}"

mapfile -t missing < <(missing_of "${packages[@]}")
[ "${#missing[@]}" -gt 0 ] || exit 0

echo "setup.sh: installing ${missing[*]}"
apt update || fail "cannot refresh the package lists: apt-get update failed" \
    "(see above); check the network and the apt sources, then run this again"
apt install -y --no-install-recommends "${missing[@]}" ||
    fail "cannot install ${missing[*]}: apt-get install failed (see above);" \
        "mend what it names (often: 'dpkg --configure -a', disk space, or a" \
        "source that lacks Debian 12), then run this again"
