#!/bin/sh
# start.sh FOLDER PORT: a Slurm of four nodes with eight processors each on this machine, without systemd, as root. Needs slurmctld, slurmd
# and munged. Ends with 0 once all nodes are idle; then srun works with SLURM_CONF=FOLDER/slurm.conf. FOLDER/pids lists what to end. Uses
# five ports from PORT on.
set -eu
folder=$1
port=$2
host=$(hostname -s)
mkdir -p "$folder/log" "$folder/state" "$folder/munge"
cat >"$folder/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CredType=cred/munge
SlurmctldPort=$port
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmdSpoolDir=$folder/spool-%n
StateSaveLocation=$folder/state
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SchedulerType=sched/backfill
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
NodeName=n[1-4] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 4))] CPUs=8 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
printf 'CgroupAutomount=no\nCgroupPlugin=cgroup/v1\nIgnoreSystemd=yes\n' >"$folder/cgroup.conf"
export SLURM_CONF="$folder/slurm.conf"
head -c 1024 /dev/urandom >"$folder/munge/key"
chmod 600 "$folder/munge/key"
start() {
    "$@" >>"$folder/log/started" 2>&1 &
    echo $! >>"$folder/pids"
}
munge=$folder/munge
start munged --key-file="$munge/key" --socket="$munge/socket" --pid-file="$munge/pid" --log-file="$munge/log" \
    --seed-file="$munge/seed" --force --foreground
for _ in $(seq 50); do [ -S "$munge/socket" ] && break; sleep 0.1; done
start slurmctld -i -D -f "$SLURM_CONF"
for node in n1 n2 n3 n4; do
    mkdir -p "$folder/spool-$node"
    start slurmd -D -N $node -f "$SLURM_CONF"
done
for _ in $(seq 100); do
    [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 4 ] && exit 0
    sleep 0.1
done
echo "no four idle nodes after 10 s: $(cat "$folder"/log/*)" >&2
exit 1
