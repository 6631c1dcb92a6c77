#!/usr/bin/env bash
# The batch scripts of launch/slurm on a private cluster: this script starts Debian's munged, slurmctld and slurmd with
# their own ports, keys and folders on this machine, and stops them at the end. About two minutes.
#   tests/slurm.sh [PROGRAM]
# The output of each job is compared with that of the program without Slurm. The last line is "N passed, N failed".
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
program=$(realpath "${1:-build/release/launch/trireme}")
if ((EUID != 0)); then echo "tests/slurm.sh: not root: slurmd wants to be" >&2; exit 77; fi
if ! command -v slurmctld slurmd munged sbatch >/dev/null; then ./launch/setup.sh --full; fi

work=$(mktemp -d /tmp/trireme-slurm.XXXXXX)
host=$(hostname -s) daemons=()
stop() {
    scancel --quiet --user=root 2>/dev/null || true
    for pid in "${daemons[@]}"; do kill "$pid" 2>/dev/null || true; done
    for ((i = 0; i < 50; ++i)); do
        pgrep -f "slurmstepd|$work" >/dev/null || break
        sleep 0.1
    done
    pkill -9 -f "$work" 2>/dev/null || true
    rm -rf "$work"
}
trap stop EXIT
# Prints the first unused port from this one on.
free_port() {
    local port=$1
    while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
    echo "$port"
}
controller=$(free_port 17817) first=$(free_port 17818)
second=$(free_port $((first + 1)))

mkdir -p "$work"/{munge,state,spool1,spool2,log,jobs}
dd if=/dev/urandom of="$work/munge/key" bs=1024 count=1 status=none
chown -R munge:munge "$work/munge"
chmod 700 "$work/munge"
chmod 400 "$work/munge/key"
chmod 755 "$work"
mkdir -p "$work/socket"
chown munge:munge "$work/socket"
chmod 755 "$work/socket"
setpriv --reuid=munge --regid=munge --clear-groups munged --foreground --socket="$work/socket/munge" \
    --key-file="$work/munge/key" --log-file="$work/munge/log" --pid-file="$work/munge/pid" \
    --seed-file="$work/munge/seed" 2>"$work/log/munged" &
daemons+=($!)

# Two nodes on one host, with more cores than it has: speed does not matter here. GPUs are only counted.
cat >"$work/slurm.conf" <<END
ClusterName=trireme
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmctldPort=$controller
AuthType=auth/munge
AuthInfo=socket=$work/socket/munge,cred_expire=6
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
SlurmctldLogFile=$work/log/slurmctld
SlurmdLogFile=$work/log/slurmd-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=bf_interval=1,sched_min_interval=100000
MinJobAge=600
KillWait=5
GresTypes=gpu
NodeName=n1 NodeAddr=127.0.0.1 NodeHostname=$host Port=$first CPUs=16 Gres=gpu:2
NodeName=n2 NodeAddr=127.0.0.1 NodeHostname=$host Port=$second CPUs=16 Gres=gpu:2
PartitionName=batch Nodes=n1,n2 Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=20 State=UP
PartitionName=urgent Nodes=n1,n2 PriorityTier=10 PreemptMode=OFF State=UP
END
printf 'Name=gpu File=/dev/%s\n' null zero >"$work/gres.conf"  # files that exist
echo 'ConstrainCores=no' >"$work/cgroup.conf"
export SLURM_CONF=$work/slurm.conf
for ((i = 0; i < 50; ++i)); do [[ -S $work/socket/munge ]] && break; sleep 0.1; done
mkdir -p "$work/spooln1" "$work/spooln2"
slurmctld -D -f "$SLURM_CONF" >"$work/log/slurmctld.out" 2>&1 &
daemons+=($!)
for node in n1 n2; do
    slurmd -D -N "$node" -f "$SLURM_CONF" >"$work/log/slurmd-$node.out" 2>&1 &
    daemons+=($!)
done
for ((i = 0; i < 150; ++i)); do
    if [[ $(sinfo -h -t idle -o %D 2>/dev/null) == *2* ]]; then break; fi
    sleep 0.2
done
if [[ $(sinfo -h -t idle -o %D 2>/dev/null) != *2* ]]; then
    tail -n 5 "$work"/log/*
    echo "tests/slurm.sh: the nodes did not come up" >&2
    exit 69
fi

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export TRIREME=$program TRIREME_SLURM=$root/launch/slurm
cd "$work/jobs"
head -c 3000 "$root/tests/data/texts/kjv_12k.txt" >prompt.txt
model=$root/tests/data/models/kjv-target
how=(generate -m "$model" -n 60 --temp 0.9 --seed 4 --ignore-eos -t 1 --no-progress --print ids)
slowly=(--kv-on-chip 0 --link-gbps 0.02)
mpirun -q -n 2 "$program" "${how[@]}" -f prompt.txt >wanted.txt 2>/dev/null

passed=0 failed=0
verdict() {
    local title=$1 status=$2
    if ((status == 0)); then
        passed=$((passed + 1))
        echo "$title: as without Slurm"
    else
        failed=$((failed + 1))
        echo "$title: FAILED"
        tail -n 15 ./*.err "$work"/log/slurmctld | cut -c1-200
    fi
}
# job TITLE WORDS-OF-SBATCH... -- SCRIPT WORDS...: submits a job, waits for it, and compares its output.
job() {
    local title=$1 options=() status=0
    shift
    while [[ $1 != -- ]]; do options+=("$1"); shift; done
    shift
    rm -f out.txt job.err
    sbatch --quiet --wait --time=5 --cpus-per-task=1 --output=out.txt --error=job.err "${options[@]}" "$root/launch/slurm/$1" "${@:2}" || status=$?
    cmp -s out.txt wanted.txt || status=1
    verdict "$title" "$status"
}

job 'cpu.sbatch, srun through PMIx' -- cpu.sbatch "${how[@]}" -f prompt.txt
TRIREME_LAUNCHER=mpirun job 'cpu.sbatch, mpirun within the allocation' -- cpu.sbatch "${how[@]}" -f prompt.txt
job 'gpu.sbatch, two counted cards, computing on the CPU' -- gpu.sbatch "${how[@]}" -f prompt.txt --device cpu
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_tcp_if_include=lo
TRIREME_LAUNCHER=mpirun job 'two-nodes.sbatch, two emulated nodes' -- two-nodes.sbatch "${how[@]}" -f prompt.txt
unset OMPI_MCA_hwloc_base_binding_policy OMPI_MCA_btl_tcp_if_include

# A job array: several modes resume from one snapshot of a prompt.
status=0
mpirun -q -n 2 "$program" generate -m "$model" -f prompt.txt -n 1 -t 1 --no-progress --spec retrieval --budget 128 --save-kv prompt.h5 >/dev/null 2>&1 || status=$?
TRIREME_SLURM_MODES='none;window;retrieval --budget 128' sbatch --quiet --wait --time=5 --cpus-per-task=1 --array=0-2 --output=mode-%a.txt --error=mode-%a.err \
    "$root/launch/slurm/modes.sbatch" generate -m "$model" --load-kv prompt.h5 -n 40 --temp 0 --ignore-eos -t 1 --no-progress || status=$?
for i in 1 2; do cmp -s mode-0.txt "mode-$i.txt" || status=1; done
(($(find . -name 'trireme-*_?.json' | wc -l) == 3)) || status=1
"$program" report trireme-*.h5 -o pages && (($(grep -c '^## Run .* of trireme-' pages/index.md) == 3)) || status=1
verdict 'modes.sbatch, three modes behind one snapshot' "$status"

# Waits until a job's state is one of these; fails after 60 s.
until_state() {
    local id=$1 states=$2
    for ((i = 0; i < 300; ++i)); do
        if [[ $(squeue -h -j "$id" -o %T 2>/dev/null) =~ ^($states)$ ]]; then return; fi
        sleep 0.2
    done
    return 1
}
# preempted TITLE LAUNCHER: a job that another one preempts; it is requeued and resumes from its snapshot.
preempted() {
    local title=$1 id urgent status=0
    rm -f out.txt job.err snapshot.h5*
    id=$(TRIREME_LAUNCHER=$2 sbatch --parsable --time=5 --cpus-per-task=8 --output=out.txt --error=job.err "$root/launch/slurm/cpu.sbatch" \
        "${how[@]}" -f prompt.txt "${slowly[@]}" --save-kv snapshot.h5 --grace 15)
    for ((i = 0; i < 100; ++i)); do [[ -e snapshot.h5 ]] && break; sleep 0.1; done
    sleep 0.5
    urgent=$(sbatch --parsable --partition=urgent --nodes=2 --exclusive --time=1 --output=/dev/null --wrap 'sleep 1')
    until_state "$id" 'PENDING' || status=1
    until_state "$urgent" '|COMPLETED' || status=1
    for ((i = 0; i < 600; ++i)); do
        if [[ $(scontrol show job "$id" | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p') =~ COMPLETED|FAILED|TIMEOUT|CANCELLED ]]; then break; fi
        sleep 0.2
    done
    [[ $(scontrol show job "$id" | sed -n 's/.*Restarts=\([0-9]*\).*/\1/p') == 1 ]] || { echo "restarts: $(scontrol show job "$id" | grep -o 'Restarts=[0-9]*')"; status=1; }
    grep -q 'the run continues with exactly its tokens' job.err || status=1
    # The run that reaches the end prints the ids.
    [[ $(tail -n 1 out.txt) == "$(tail -n 1 wanted.txt)" ]] || status=1
    verdict "$title" "$status"
}
preempted 'cpu.sbatch preempted and put into the queue again, srun' srun
preempted 'the same, mpirun' mpirun

# The warning before the time limit: ranks receive SIGUSR1, and the requeued job resumes.
status=0
rm -f out.txt job.err snapshot.h5*
id=$(sbatch --parsable --time=5 --cpus-per-task=1 --output=out.txt --error=job.err "$root/launch/slurm/cpu.sbatch" "${how[@]}" -f prompt.txt "${slowly[@]}" --save-kv snapshot.h5)
for ((i = 0; i < 100; ++i)); do [[ -e snapshot.h5 ]] && break; sleep 0.1; done
scancel --signal=USR1 --batch "$id"
for ((i = 0; i < 600; ++i)); do
    if [[ $(scontrol show job "$id" | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p') =~ COMPLETED|FAILED|TIMEOUT|CANCELLED ]]; then break; fi
    sleep 0.2
done
[[ $(tail -n 1 out.txt) == "$(tail -n 1 wanted.txt)" ]] || status=1
grep -q 'stopped; resume with --load-kv' job.err || status=1
verdict 'cpu.sbatch warned of its time limit' "$status"

printf '%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
