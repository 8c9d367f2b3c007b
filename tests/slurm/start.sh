#!/bin/sh
# Starts a Slurm of one node in a folder: `start.sh FOLDER`, with the distribution's munged, slurmctld and slurmd.
# It installs nothing. Set SLURM_CONF=FOLDER/slurm.conf to use it, and end it by `stop.sh FOLDER`.
# Exit status 77 means that this machine can't: the reason is written to the stream of errors.
set -eu
folder=$(realpath "$1")
PATH=$PATH:/usr/sbin:/sbin
here=$(dirname "$(realpath "$0")")

cannot() { echo "$1" >&2; exit 77; }
for program in munged munge slurmctld slurmd sbatch srun squeue scancel scontrol sinfo; do
    command -v "$program" >/dev/null || cannot "there is no $program (Debian: slurmctld slurmd munge slurm-client)"
done
[ "$(id -u)" = 0 ] || cannot "slurmd starts jobs, and needs the rights of root for that"

node=$(hostname -s)
port=$(python3 -c 'import socket; s = [socket.socket() for _ in "ab"]; [x.bind(("127.0.0.1", 0)) for x in s]; print(*(x.getsockname()[1] for x in s))')
mkdir -p "$folder/state" "$folder/spool" "$folder/munge"
chmod 755 "$folder" "$folder/munge"
export SLURM_CONF="$folder/slurm.conf"
cat > "$SLURM_CONF" <<CONF
ClusterName=slowstep
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
SlurmctldPort=${port% *}
SlurmdPort=${port#* }
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$folder/munge/socket,cred_expire=5
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=5
MinJobAge=60
InactiveLimit=0
NodeName=$node NodeAddr=127.0.0.1 CPUs=$(getconf _NPROCESSORS_ONLN) State=UNKNOWN
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=one Nodes=$node Default=YES MaxTime=60 State=UP PriorityTier=1
PartitionName=urgent Nodes=$node MaxTime=60 State=UP PriorityTier=2
CONF

(umask 077; head -c 1024 /dev/urandom > "$folder/munge/key")
trap 'sh "$here/stop.sh" "$folder"' EXIT  # whatever fails below leaves no daemon behind
munged --force --key-file="$folder/munge/key" --socket="$folder/munge/socket" --pid-file="$folder/munged.pid" \
    --log-file="$folder/munged.log" --seed-file="$folder/munge/seed" || cannot "munged does not start"
slurmctld -f "$SLURM_CONF" || cannot "slurmctld does not start: $(tail -n 1 "$folder/slurmctld.log")"
# where mounting is allowed, jobs see another folder than their home in FOLDER/hidden, as if it were not shared
mkdir -p "$folder/hidden"
if unshare --mount sh -c 'mount -t tmpfs none "$0/hidden" && exec slurmd -f "$0/slurm.conf"' "$folder"; then
    touch "$folder/hides"
fi
[ -e "$folder/hides" ] || slurmd -f "$SLURM_CONF" || cannot "slurmd does not start: $(tail -n 1 "$folder/slurmd.log")"
for _ in $(seq 100); do
    case $(sinfo --noheader --format=%T 2>/dev/null) in idle) trap - EXIT; exit 0 ;; esac
    sleep 0.2
done
cannot "the node is not idle after 20 s: $(tail -n 1 "$folder/slurmd.log")"
