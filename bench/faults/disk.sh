#!/bin/sh
# Full and read-only file systems, in mounts that only this script sees: unshare -m sh bench/faults/disk.sh (as root).
# Prints the last line of each command and its exit status; run in the kit's folder, with its .venv.
set -u
place=$(mktemp -d)
trap 'umount "$place" 2>/dev/null; rmdir "$place"' EXIT

try() {  # what is tried, TMPDIR (empty: as it is), the command
    what=$1 temporary=$2
    shift 2
    said=$(env ${temporary:+TMPDIR="$temporary"} .venv/bin/python -m slowstep.cli "$@" 2>&1)
    status=$?
    printf '%s: %s: status %s: %s\n' "$what" "$1" "$status" "$(printf '%s' "$said" | tail -n 1)" | sed "s#$place#PLACE#g"
    case $said in *Traceback*) printf 'FAILED: a traceback\n' ;; esac
}

mount -t tmpfs -o size=48k none "$place"
try "full outputs" "" audit params/case_001.yaml --outputs "$place/out"
try "full outputs" "" diagnose params/smoke.yaml --outputs "$place/out"
umount "$place"

mount -t tmpfs -o size=4k none "$place"
head -c 4096 /dev/zero >"$place/filled" 2>/dev/null
try "full TMPDIR" "$place" check params/smoke.yaml --outputs "$place/out"
try "full TMPDIR" "$place" audit params/case_001.yaml --outputs "$place/out"
umount "$place"

mount -t tmpfs -o ro none "$place"
try "read-only outputs" "" check params/smoke.yaml --outputs "$place"
try "read-only outputs" "" audit params/case_001.yaml --outputs "$place"
try "read-only outputs" "" report --outputs "$place"
