#!/usr/bin/env python3
"""Kills, stops or slows ranks at random moments of a run under mpirun, and checks how and when the other ranks end.

  ranks.py PROGRAM [--killed 200] [--stopped 40] [--slow 10] [--deadline 3] [--seed 1]

Killed: SIGKILL to a rank while ranks start, read the prompt or generate. All ranks must end, and mpirun must report
which rank died, and how. Stopped: SIGSTOP to a rank. A rank that waits for it must report this, and all must end. Slow:
a rank is stopped several times, each time for less than the deadline; the run must end as if it had not been stopped.

Prints times. The only condition is that all ranks end within half a minute. --deadline is the program's
TRIREME_TIMEOUT_S. MPI_Init waits for at least 60 s, so ranks are stopped after it.
"""

import argparse
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from runner import MODEL, TEXT

CAP_S = 30  # seconds after the deadline; a run that takes longer hangs
PHASES = {"start": 0.1, "prefill": 0.12, "decode": 0.9}  # a rank is killed within these seconds of a phase's beginning
BEGUN = "compute thread"  # in the log: MPI has started
EXPECTED = "expected: dead, p99 <= 2 s; stopped, found <= deadline + 0.5 s, gone <= + 6 s"


def state_of(pid):
    """The process's state letter in /proc, and its parent; None: the process has ended."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    letter, parent = text.rpartition(")")[2].split()[:2]
    return letter, int(parent)


def gone(pid):
    state = state_of(pid)
    return state is None or state[0] in "ZX"


class Job:
    """A run under mpirun: the process ids of its ranks, and its output lines with their times."""

    def __init__(self, program, ranks, prompt, deadline_s, tokens=60):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TRIREME_")}
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TRIREME_TIMEOUT_S": str(deadline_s),
                        "OMPI_MCA_rmaps_base_oversubscribe": "1"}  # fmt: skip
        command = ["mpirun", "-n", str(ranks), program, "generate", "-m", MODEL, "-f", str(prompt), "-n", str(tokens), "-t", "1",
                   "--no-progress", "--ignore-eos", "--seed", "3", "--kv-on-chip", "0", "--link-gbps", "0.02"]  # fmt: skip
        self.begin, self.size, self.lines, self.pids = time.monotonic(), ranks, [], {}
        self.mpirun = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)  # fmt: skip
        self.out = []
        self.readers = [threading.Thread(target=self.read, args=a) for a in
                        ((self.mpirun.stderr, self.lines), (self.mpirun.stdout, self.out))]  # fmt: skip
        for reader in self.readers:
            reader.start()

    @staticmethod
    def read(pipe, lines):
        for line in pipe:
            lines.append((time.monotonic(), line))

    def find_ranks(self):
        """Waits until all ranks run the program."""
        while len(self.pids) < self.size and self.mpirun.poll() is None and time.monotonic() < self.begin + CAP_S:
            for pid in filter(str.isdigit, os.listdir("/proc")):
                state = state_of(pid)
                if state is None or state[1] != self.mpirun.pid or int(pid) in self.pids.values():
                    continue
                try:
                    environment = pathlib.Path(f"/proc/{pid}/environ").read_text(errors="replace")
                except OSError:
                    continue
                rank = re.search(r"OMPI_COMM_WORLD_RANK=(\d+)", environment)
                if rank:
                    self.pids[int(rank[1])] = int(pid)
            time.sleep(0.002)
        return len(self.pids) == self.size

    def text(self):
        return "".join(line for _, line in self.lines)

    def when(self, pattern):
        """The time of the first line that matches the pattern."""
        return next((at for at, line in list(self.lines) if re.search(pattern, line)), None)

    def wait_for(self, pattern):
        while self.when(pattern) is None and self.mpirun.poll() is None:
            time.sleep(0.002)

    def wait_until_gone(self, within_s):
        """Seconds until all ranks have ended; None: some have not ended within the limit."""
        begin = time.monotonic()
        while not all(gone(pid) for pid in self.pids.values()):
            if time.monotonic() - begin > within_s:
                return None
            time.sleep(0.001)
        return time.monotonic() - begin

    def end(self):
        """Ends all processes of the job."""
        for pid in self.pids.values():
            if not gone(pid):
                os.kill(pid, signal.SIGKILL)
        try:
            self.mpirun.wait(CAP_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.mpirun.pid, signal.SIGKILL)
            self.mpirun.wait()
        for reader in self.readers:
            reader.join()


def percentile(values, p):
    return sorted(values)[min(len(values) - 1, int(p / 100 * len(values)))]


class Trials:
    def __init__(self, asked, folder):
        self.asked, self.draw = asked, random.Random(asked.seed)
        self.prompt = pathlib.Path(folder) / "prompt.txt"
        self.prompt.write_text(TEXT.read_text()[:2500])
        self.wrong = 0

    def job(self, ranks, tokens=60):
        return Job(os.path.abspath(self.asked.program), ranks, self.prompt, self.asked.deadline, tokens)

    def fail(self, what, job):
        self.wrong += 1
        print(f"{what}:\n{job.text()[-1500:]}", file=sys.stderr, flush=True)

    def killed(self, ranks, n):
        times, unnamed, phases = [], 0, dict.fromkeys(PHASES, 0)
        while len(times) < n:
            job = self.job(ranks)
            phase, rank = self.draw.choice(list(PHASES)), self.draw.randrange(ranks)
            moment = self.draw.random() * PHASES[phase]
            try:
                if not job.find_ranks():
                    self.fail("ranks did not start", job)
                    break
                if phase != "start":
                    job.wait_for(BEGUN)
                while phase == "decode" and not job.out and job.mpirun.poll() is None:
                    time.sleep(0.002)
                time.sleep(moment)
                begun = job.when(BEGUN) is not None
                phase = "decode" if job.out else "prefill" if begun else "start"
                os.kill(job.pids[rank], signal.SIGKILL)
                seconds = job.wait_until_gone(CAP_S)
            except ProcessLookupError:  # the run had ended
                continue
            finally:
                job.end()
            if job.mpirun.returncode == 0:  # the run had ended, and only mpirun was still there
                continue
            phases[phase] += 1
            if seconds is None:
                self.fail(f"rank {rank} of {ranks} killed in {phase}: ranks are left after {CAP_S} s", job)
                seconds = CAP_S
            if not re.search(rf"process rank {rank} with PID \d+ .*signal 9|rank {rank} has ended", job.text()):
                unnamed += 1
                if begun:  # before MPI starts, only the launcher can report it
                    self.fail(f"rank {rank} of {ranks} killed in {phase}: no rank reports it", job)
            times.append(seconds)
            self.say(f"killed, {ranks} ranks", len(times), n)
        return times, unnamed, phases

    def stopped(self, ranks, n):
        found, left = [], []
        while len(found) < n:
            job = self.job(ranks)
            moment, rank = self.draw.random() * 0.9, self.draw.randrange(ranks)
            try:
                if not job.find_ranks():
                    self.fail("ranks did not start", job)
                    return found, left
                job.wait_for(BEGUN)
                time.sleep(moment)
                stopped_at = time.monotonic()
                os.kill(job.pids[rank], signal.SIGSTOP)
                seconds = job.wait_until_gone(self.asked.deadline + CAP_S)
            except ProcessLookupError:
                continue
            finally:
                job.end()
            if job.mpirun.returncode == 0:
                continue
            said = job.when(r"rank \d+: .* has waited \d+ s for its peers")
            if seconds is None or said is None or re.search(rf"rank {rank}: .* has waited", job.text()):
                self.fail(f"rank {rank} of {ranks} stopped {moment:.2f} s after the start: found {said}, gone {seconds}", job)
            found.append(said - stopped_at if said else self.asked.deadline + CAP_S)
            left.append(seconds if seconds is not None else self.asked.deadline + CAP_S)
            self.say(f"stopped, {ranks} ranks", len(found), n)
        return found, left

    def slow(self, ranks, n):
        """Seconds of the longest of n runs; all must end well."""
        longest, whole = 0, self.job(ranks)
        whole.end()
        for i in range(n):
            job, rank = self.job(ranks), self.draw.randrange(ranks)
            try:
                if job.find_ranks():
                    job.wait_for(BEGUN)
                    for _ in range(3):
                        os.kill(job.pids[rank], signal.SIGSTOP)
                        time.sleep(0.7 * self.asked.deadline)
                        os.kill(job.pids[rank], signal.SIGCONT)
                        time.sleep(0.2)
                job.mpirun.wait(CAP_S)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass
            finally:
                job.end()
            longest = max(longest, time.monotonic() - job.begin)
            if job.mpirun.returncode != 0 or [line for _, line in job.out] != [line for _, line in whole.out] or job.when("waited"):
                self.fail(f"a slow rank {rank} of {ranks} ended the run with {job.mpirun.returncode}", job)
            self.say(f"slow, {ranks} ranks", i + 1, n)
        return longest

    @staticmethod
    def say(what, i, n):
        if i % 20 == 0:
            print(f"{what}: {i} of {n}", file=sys.stderr, flush=True)


def row(what, n, note, times):
    p50, p99, most = (f"{x:.2f}" for x in (percentile(times, 50), percentile(times, 99), max(times)))
    print(f"| {what} | {n} | {note} | {p50} | {p99} | {most} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--killed", type=int, default=200)
    parser.add_argument("--stopped", type=int, default=40)
    parser.add_argument("--slow", type=int, default=10)
    parser.add_argument("--deadline", type=float, default=3)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print("| ranks | trials | | p50, s | p99, s | most, s |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        trials = Trials(asked, folder)
        for ranks in (2, 4):
            times, unnamed, phases = trials.killed(ranks, asked.killed // 2)
            when = ", ".join(f"{n} in {phase}" for phase, n in phases.items()) + f"; cause not named: {unnamed}"
            if times:
                row(f"{ranks}, one killed: all gone", len(times), when, times)
        for ranks in (2, 4):
            found, left = trials.stopped(ranks, asked.stopped // 2)
            if found:
                row(f"{ranks}, one stopped: found", len(found), f"deadline {asked.deadline:g} s", found)
                row(f"{ranks}, one stopped: all gone", len(left), "", left)
        for ranks in (2, 4):
            if asked.slow:
                longest = trials.slow(ranks, asked.slow // 2)
                print(f"| {ranks}, one slow: no alarm | {asked.slow // 2} | longest run {longest:.1f} s | | | |", flush=True)
    print(f"\n{EXPECTED}; {trials.wrong} trials went wrong")
    sys.exit(1 if trials.wrong else 0)


if __name__ == "__main__":
    main()
