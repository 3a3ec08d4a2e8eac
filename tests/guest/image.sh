#!/usr/bin/env bash
# Makes what the guest boots from: OUTDIR/vmlinuz, Debian's newest cloud kernel
# as its package holds it (nothing is installed), and OUTDIR/initrd.gz, busybox
# with the modules for virtio-net and the `init` beside this file. Made once
# and put in place by one rename each, so several tests may call this at once.
#
# Exit status 77: the kernel package is not to be had on this machine.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${1:?usage: image.sh OUTDIR}
# In the order in which they must be inserted.
modules=(
    virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci
    failover net_failover virtio_net pktgen
)

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

kernel_package() {
    apt-cache depends linux-image-cloud-amd64 2>/dev/null |
        sed -n 's/^ *Depends: \(linux-image-.*-cloud-amd64\)$/\1/p' |
        sort -V | tail -n 1
}

# apt's sandbox user may not write to our folder: that is only a warning.
download_kernel() { # TO_DIR
    local package
    package=$(kernel_package)
    [ -n "$package" ] && (cd "$1" && apt-get -qq download "$package" 2>&1)
}

# The lists may be absent (a fresh machine) or name a kernel that is gone.
fetch_kernel() { # TO_DIR
    download_kernel "$1" >/dev/null && return
    as_root apt-get -qq -o DPkg::Lock::Timeout=300 update >/dev/null 2>&1 ||
        true
    download_kernel "$1" && return
    echo "image.sh: cannot download linux-image-cloud-amd64's kernel:" \
        "see above; check the apt sources and run apt-get update" >&2
    return 77
}

unpack_kernel() {
    local status=0
    [ ! -d "$out/kernel" ] || return 0
    fetch_kernel "$tmp" || status=$?
    [ "$status" = 0 ] || exit "$status"
    dpkg-deb -x "$tmp"/linux-image-*.deb "$tmp/kernel"
    mv -T "$tmp/kernel" "$out/kernel"
}

build_initramfs() {
    local root=$tmp/root name
    mkdir -p "$root"/{bin,dev,proc,sys,tmp,modules}
    cp "$(command -v busybox)" "$root/bin/busybox"
    install -m 755 "$here/init" "$root/init"
    for name in "${modules[@]}"; do
        find "$out/kernel/lib/modules" -name "$name.ko" \
            -exec cp {} "$root/modules/" \;
    done
    printf '%s\n' "${modules[@]}" >"$root/modules/order"
    (cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet | gzip -1) \
        >"$tmp/initrd.gz"
    mv "$tmp/initrd.gz" "$out/initrd.gz"
}

mkdir -p "$out"
out=$(cd "$out" && pwd)
exec 9>"$out/lock"
flock 9
tmp=$(mktemp -d "$out/tmp.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

unpack_kernel
(cd "$out" && ln -sfT kernel/boot/vmlinuz-* vmlinuz)
# The recipe is part of what it makes: a newer one makes it again.
if [ ! -e "$out/initrd.gz" ] || [ "$here/init" -nt "$out/initrd.gz" ] ||
    [ "$here/image.sh" -nt "$out/initrd.gz" ]; then
    build_initramfs
fi
