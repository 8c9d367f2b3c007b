#!/bin/sh
# Ends the Slurm that start.sh has started in a folder: `stop.sh FOLDER`.
folder=$(realpath "$1")
for daemon in slurmd slurmctld munged; do
    [ -s "$folder/$daemon.pid" ] || continue
    pid=$(cat "$folder/$daemon.pid")
    kill "$pid" 2>/dev/null
    for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -9 "$pid" 2>/dev/null
done
exit 0
