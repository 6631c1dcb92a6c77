#!/usr/bin/env bash
# What the batch scripts beside this one have in common: they source it, and call `run WORDS...` with trireme's words.
# Variables: TRIREME, the program (default: build/release/launch/trireme of a clone, else the installed one); TRIREME_LAUNCHER, srun (through PMIx) or
# mpirun; TRIREME_MOST_RESTARTS, after which a job that goes on from snapshots is not put into the queue again (20).
set -euo pipefail
program=${TRIREME:-build/release/launch/trireme}
if [[ ! ${TRIREME:-} && ! -e $program ]]; then program=trireme; fi
launcher=${TRIREME_LAUNCHER:-srun} most_restarts=${TRIREME_MOST_RESTARTS:-20}
unset TRIREME TRIREME_SLURM TRIREME_LAUNCHER TRIREME_MOST_RESTARTS  # the program takes variables of that beginning for its own

# Slurm starts a job's steps with the cores of a task; with more ranks than cores, a waiting rank yields its core.
if ((${SLURM_NTASKS_PER_NODE:-$SLURM_NTASKS} > $(nproc --all))); then export OMPI_MCA_mpi_yield_when_idle=1; fi
export OMPI_MCA_btl_vader_single_copy_mechanism=${OMPI_MCA_btl_vader_single_copy_mechanism:-none}

# The value behind a flag among these words; nothing if it is not there.
value_of() {
    local flag=$1
    shift
    while (($# > 1)); do
        if [[ $1 == "$flag" ]]; then echo "$2"; return; fi
        shift
    done
}

# ranks WORDS...: the program, once a task.
ranks() {
    if [[ $launcher == srun ]]; then
        # Without --kill-on-bad-exit the other ranks notice a failed one only by their deadline, TRIREME_TIMEOUT_S.
        srun --mpi=pmix --kill-on-bad-exit=1 --cpu-bind=cores --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" "$program" "$@" &
    else
        # Emulated nodes, and ranks with threads of their own, are not to be bound to one core each.
        mpirun --bind-to none -n "$SLURM_NTASKS" "$program" "$@" &
    fi
    local child=$! status=0
    told=''
    # Slurm's warning before the time limit (#SBATCH --signal=B:USR1@...) comes here: the ranks are told, and write a
    # snapshot. On preemption Slurm itself sends SIGTERM to all. `wait` returns when a signal comes, so it is asked again.
    # mpirun gets SIGTERM, too: it passes it on, and leaves the ranks one second. What it then ends with says nothing.
    trap 'kill -USR1 "$child" 2>/dev/null' USR1
    trap told=1 TERM
    while true; do
        status=0
        wait "$child" || status=$?
        if ! kill -0 "$child" 2>/dev/null; then break; fi
    done
    return "$status"
}

# Whether Slurm has told this job to go: of mpirun's daemons that is all that is left to see.
preempted() {
    scontrol show job "$SLURM_JOB_ID" | grep -q ' PreemptTime=[0-9]'
}

# With --save-kv FILE: goes on from FILE where an earlier run of this job left it; and where this one was told to end, the
# job goes back into the queue: to go on from what it has written since (75), or else from the last snapshot.
run() {
    local snapshot status=0 words=("$@")
    snapshot=$(value_of --save-kv "$@")
    if [[ $snapshot && -e $snapshot && ${SLURM_RESTART_COUNT:-0} -gt 0 && ! $(value_of --load-kv "$@") ]]; then
        words+=(--load-kv "$snapshot")
        # A report of the part before is not this run's.
        words+=(--force)
    fi
    ranks "${words[@]}" || status=$?
    if ((status == 75)) || { ((status != 0)) && [[ $snapshot && -e $snapshot ]] && { [[ $told ]] || preempted; }; }; then
        if ((${SLURM_RESTART_COUNT:-0} >= most_restarts)); then
            echo "trireme: restarted $most_restarts times: not put into the queue again; go on with --load-kv $snapshot" >&2
        elif [[ $(squeue -h -j "$SLURM_JOB_ID" -o %T) == RUNNING ]]; then  # else somebody has cancelled it
            scontrol requeue "$SLURM_JOB_ID"
            sleep 60  # Slurm ends this job before that
        fi
    fi
    return "$status"
}
