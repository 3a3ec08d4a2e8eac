# What every test against a foreign peer shares: verdicts, waiting, one core
# for the peer, and a moonring that is started, found ready and stopped.
# Sourced; expects $moonring (the binary), $run (a scratch folder that goes
# away; sockets are there, for their paths have room for 107 bytes), $workdir
# (where the logs of a failure stay) and as_user (a prefix for commands).
#
# shellcheck shell=bash disable=SC2154
set -euo pipefail

moonring_pid=

say() {
    echo "== $*"
}

fail() {
    show_logs >&2
    mkdir -p "$workdir" && cp -p "$run"/*.log "$workdir" 2>/dev/null || true
    echo "FAILED: $*" >&2
    exit 1
}

show_logs() {
    local file
    for file in "$run"/*.log; do
        [ ! -s "$file" ] || { echo "-- ${file##*/}" && tail -n 200 "$file"; }
    done
}

# On the CI machine nothing is allowed to be absent.
skip() {
    [ "${CI-}" != true ] || fail "$*"
    echo "SKIPPED: $*"
    exit 77
}

wait_until() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.1
    done
}

alive() { # PID
    [ -n "$1" ] && kill -0 "$1" 2>/dev/null
}

gone() { # PID
    ! alive "$1"
}

# Its exit status is that of the process; 124 when it had to be killed.
end_process() { # SIGNAL PID
    local status=0
    kill -s "$1" "$2" 2>/dev/null || true
    wait_until 30 gone "$2" || { kill -s KILL "$2" && status=124; }
    wait "$2" 2>/dev/null || status=$((status ? status : $?))
    return "$status"
}

first_cpu() {
    local cpus
    cpus=$(taskset -cp $$)
    cpus=${cpus##*: }
    echo "${cpus%%[,-]*}"
}

moonring_start() { # ARGUMENT...
    say "moonring $*"
    "${as_user[@]}" "$moonring" "$@" >"$run/moonring.out" \
        2>>"$run/moonring.log" &
    moonring_pid=$!
}

socket_there() { # PATH
    alive "$moonring_pid" || fail "moonring ended at its start"
    [ -S "$1" ]
}

moonring_wait_socket() { # PATH
    wait_until 60 socket_there "$1" || fail "moonring made no socket"
}

moonring_kill() {
    end_process KILL "$moonring_pid" || true
    moonring_pid=
}

# Told to stop, it must end well and in time.
moonring_stop() {
    local status=0
    end_process TERM "$moonring_pid" || status=$?
    moonring_pid=
    cat "$run/moonring.out"
    [ "$status" = 0 ] || fail "moonring ended with status $status on SIGTERM"
}

moonring_clean_up() {
    [ -z "$moonring_pid" ] || end_process TERM "$moonring_pid" || true
}
