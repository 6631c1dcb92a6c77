#!/usr/bin/env bash
# Functions shared by the batch scripts in this folder: they source it, and call `run WORDS...` with trireme's arguments.
# Variables: TRIREME, the program (default: build/release/launch/trireme of a clone, else the installed one);
# TRIREME_LAUNCHER, srun (through PMIx) or mpirun; TRIREME_MOST_RESTARTS, the most restarts of a job from snapshots (20).
set -euo pipefail
program=${TRIREME:-build/release/launch/trireme}
if [[ ! ${TRIREME:-} && ! -e $program ]]; then program=trireme; fi
launcher=${TRIREME_LAUNCHER:-srun} most_restarts=${TRIREME_MOST_RESTARTS:-20}
unset TRIREME TRIREME_SLURM TRIREME_LAUNCHER TRIREME_MOST_RESTARTS  # for this script alone

# Slurm gives a job's steps the cores of a task; with more ranks than cores, a waiting rank yields its core.
if ((${SLURM_NTASKS_PER_NODE:-$SLURM_NTASKS} > $(nproc --all))); then export OMPI_MCA_mpi_yield_when_idle=1; fi
export OMPI_MCA_btl_vader_single_copy_mechanism=${OMPI_MCA_btl_vader_single_copy_mechanism:-none}

# value_of FLAG WORDS...: prints the value after FLAG; nothing if the flag is not given.
value_of() {
    local flag=$1
    shift
    while (($# > 1)); do
        if [[ $1 == "$flag" ]]; then echo "$2"; return; fi
        shift
    done
}

# ranks WORDS...: runs the program once per task.
ranks() {
    if [[ $launcher == srun ]]; then
        # Without --kill-on-bad-exit the other ranks detect a failed one only at their deadline, TRIREME_TIMEOUT_S.
        srun --mpi=pmix --kill-on-bad-exit=1 --cpu-bind=cores --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" "$program" "$@" &
    else
        # Emulated nodes, and ranks with several threads, must not be bound to one core each.
        mpirun --bind-to none -n "$SLURM_NTASKS" "$program" "$@" &
    fi
    local child=$! status=0
    told=''
    # Slurm's warning before the time limit (#SBATCH --signal=B:USR1@...) arrives here. It is forwarded to the ranks, which
    # write a snapshot. On preemption Slurm itself sends SIGTERM to all. `wait` returns at a signal, so it is called again.
    # mpirun also gets SIGTERM: it forwards it, and leaves the ranks one second. Its exit status is then meaningless.
    trap 'kill -USR1 "$child" 2>/dev/null' USR1
    trap told=1 TERM
    while true; do
        status=0
        wait "$child" || status=$?
        if ! kill -0 "$child" 2>/dev/null; then break; fi
    done
    return "$status"
}

# Whether Slurm has preempted this job. With mpirun's daemons there is no other sign of it.
preempted() {
    scontrol show job "$SLURM_JOB_ID" | grep -q ' PreemptTime=[0-9]'
}

# With --save-kv FILE: resumes from FILE if an earlier run of this job wrote it. If this run was ended early, the job is
# queued again. It then resumes from the snapshot that this run wrote at its end (75), or else from the last one.
run() {
    local snapshot status=0 words=("$@")
    snapshot=$(value_of --save-kv "$@")
    if [[ $snapshot && -e $snapshot && ${SLURM_RESTART_COUNT:-0} -gt 0 && ! $(value_of --load-kv "$@") ]]; then
        words+=(--load-kv "$snapshot")
        # The report of the earlier part is overwritten.
        words+=(--force)
    fi
    ranks "${words[@]}" || status=$?
    if ((status == 75)) || { ((status != 0)) && [[ $snapshot && -e $snapshot ]] && { [[ $told ]] || preempted; }; }; then
        if ((${SLURM_RESTART_COUNT:-0} >= most_restarts)); then
            echo "trireme: restarted $most_restarts times: not put into the queue again; go on with --load-kv $snapshot" >&2
        elif [[ $(squeue -h -j "$SLURM_JOB_ID" -o %T) == RUNNING ]]; then  # else the job has been cancelled
            scontrol requeue "$SLURM_JOB_ID"
            sleep 60  # Slurm ends this job before that
        fi
    fi
    return "$status"
}
