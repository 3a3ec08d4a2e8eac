#!/usr/bin/env bash
# From a clean clone to packets in one command: installs what is missing,
# builds, and runs the main job in its short form: our device side against our
# driver side over a real vhost-user socket. Needs no root when the packages
# are there, no hugepages and no second core.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The variable speaks for new build trees only; others keep their generator.
! command -v ninja >/dev/null || export CMAKE_GENERATOR=Ninja

echo "== packages"
scripts/setup.sh
echo "== build"
new_tree=()
[ -f build/CMakeCache.txt ] || new_tree=(-DBUILD_TESTING=OFF)
cmake -S . -B build -DCMAKE_BUILD_TYPE=Release "${new_tree[@]}"
cmake --build build --target moonring -j "$(nproc)"
echo "== bench"
exec build/bin/moonring bench pvp --short # ends with what to try next
