#!/usr/bin/env python3
"""The checks of tests/gpu_software.sh. That script makes all preparations.

  gpu_software.py BUILD_FOLDER WORK_FOLDER [--full] [--only TEXT]...

A check is a function that raises an exception if it fails. Two checks run at a time, each on one thread of the software
GPU. Every process of a check must end as expected, and without findings of the software GPU (a missing wait, memory
that is not allocated, a CUDA call from a host function, ...).
"""
import argparse
import concurrent.futures
import contextlib
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "tests/data/models"
TARGET, DRAFT, SHARED_LAYERS = MODELS / "kjv-target", MODELS / "kjv-draft", MODELS / "kjv-lckv"
GGUF = ROOT / "tests/data/gguf"
NINE_HEADS = ROOT / "tests/data/tiny/heads9-kv3"
DEADLINE_S = 600
EXACT = ["--dtype", "f32", "-ctk", "f32", "-ctv", "f32"]
WARM = ["--temp", "0.8", "--seed", "3"]
GREEDY = ["--temp", "0"]
BLOCKS = ["--dtype", "auto", "--activations", "f32"]  # of quantised files
STREAMED = ["--kv-on-chip", "0", "--kv-ring", "2"]  # the ring is reused several times in each forward
# Part of the software GPU's note if pinned memory is not mapped for kernels.
UNMAPPED = "registered, not mapped"


class Failed(Exception):
    pass


class Gpu:
    """Starts programs on the software GPU."""

    def __init__(self, build, work):
        self.build, self.work = build, work
        self.program = build / "launch/trireme"
        self.numbers, self.lock = itertools.count(), threading.Lock()
        self.cpu_ids = {}
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="checks.", dir=work))
        text = (ROOT / "configs/demo.txt").read_text()
        self.text = self.scratch / "text.txt"  # 530 tokens: two whole tiles and a part of one
        self.text.write_text(text[:1250])
        self.ids = self.scratch / "ids.txt"
        self.ids.write_text(json.dumps([i % 97 + 3 for i in range(300)]))

    def path(self, name):
        with self.lock:
            return self.scratch / f"{next(self.numbers)}-{name}"

    def run(self, command, status=0, findings=(), deadline_s=DEADLINE_S, **variables):
        """Runs a process and returns it. `findings`: parts of the expected findings of the software GPU; None: any."""
        job = f"{os.getpid()}-{next(self.numbers)}"
        out = pathlib.Path(variables.get("SWGPU_OUT", self.path("findings")))
        environment = {**os.environ, "LD_LIBRARY_PATH": str(self.work / "lib"), "SWGPU_PTX": str(self.work / "ptx"),
                       "SWGPU_JOB": job, "SWGPU_OUT": str(out), "SWGPU_THREADS": "1", "SWGPU_MEM_MIB": "2048",
                       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                       "OMPI_MCA_rmaps_base_oversubscribe": "1", "TRIREME_TIMEOUT_S": "120", **{k: str(v) for k, v in variables.items()}}
        command = [str(c) for c in command]
        try:
            ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=deadline_s, cwd=ROOT,
                                   check=False)
        except subprocess.TimeoutExpired as e:
            raise Failed(f"still running after {deadline_s} s: {' '.join(command)}") from e
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"/dev/shm/swgpu-mem-{job}")
        found = [line for line in (out.read_text() if out.exists() else "").splitlines()
                 if line.startswith("FINDING") or UNMAPPED in line]
        for part in findings or ():
            if not any(part in line for line in found):
                raise Failed(f"the software GPU did not find '{part}' in: {' '.join(command)}")
        if found and findings == ():
            raise Failed("\n".join([" ".join(command), *found[:5]]))
        if status is not None and ended.returncode != status:
            raise Failed(f"status {ended.returncode}, expected {status}: {' '.join(command)}\n{ended.stderr[-2000:]}")
        return ended

    def trireme(self, *words, ranks=1, **options):
        if ranks > 1 and "SWGPU_COUNT" in options:  # ranks with GPUs of their own would measure for half a minute which way is faster
            options.setdefault("TRIREME_SHM_SUMS", 0)
        launcher = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
        return self.run([*launcher, self.program, *words], **options)

    def request(self, model, *flags, n=12):
        # The tiny models have no tokenizer.
        prompt = ["-f", self.text] if model.parent == MODELS else ["--prompt-ids", self.ids]
        return ["generate", "-m", model, *prompt, "-n", str(n), *EXACT, "--threads", "1", "--print", "ids", "--no-progress",
                "--ignore-eos", *flags]

    def on_cpu(self, request, ranks=1):
        key = (*map(str, request), ranks)
        with self.lock:
            known = self.cpu_ids.get(key)
        if known is None:
            known = self.trireme(*request, "--device", "cpu", ranks=ranks).stdout
            if not known.strip():
                raise Failed("the CPU gave no tokens")
            with self.lock:
                self.cpu_ids[key] = known
        return known

    def same_as_cpu(self, model, *flags, gpu_flags=(), ranks=1, n=12, **variables):
        """Checks that the GPU gives the ids of the CPU with the same number of ranks."""
        request = self.request(model, *flags, n=n)
        expected = self.on_cpu(request, ranks)
        got = self.trireme(*request, *gpu_flags, "--device", "cuda", ranks=ranks, **variables).stdout
        if got != expected:
            raise Failed(f"ids differ: {' '.join(map(str, [*request, *gpu_flags]))}\nCPU {expected.strip()}\nGPU {got.strip()}")

    def gtest(self, program, pattern, **variables):
        ended = self.run([self.build / program, f"--gtest_filter={pattern}", "--gtest_brief=1"], status=None, **variables)
        passed = re.search(r"\[  PASSED  \] (\d+) test", ended.stdout)
        if ended.returncode != 0 or not passed or passed.group(1) == "0":
            raise Failed(f"{program} {pattern}: status {ended.returncode}\n{ended.stdout[-3000:]}{ended.stderr[-1000:]}")


KERNELS, ENGINE = "tests/kernels/kernels_cuda_test", "tests/model/llama/engine_cuda_test"
CHECKS = {}  # checks of CI
FULL = {}    # other checks


def check(name, full=False):
    def add(function):
        (FULL if full else CHECKS)[name] = function
        return function
    return add


@check("list-devices and doctor")
def devices(gpu):
    if "cuda:0" not in gpu.trireme("--list-devices").stdout:
        raise Failed("--list-devices shows no cuda:0")
    if "cuda:0" not in (r := gpu.trireme("doctor", "--device", "cuda")).stdout + r.stderr:
        raise Failed("doctor shows no cuda:0")


for on_chip, graphs, (kind, sampling) in itertools.product(("all", "1", "0"), (True, False), (("greedy", GREEDY), ("sampled", WARM))):
    check(f"{kind}, KV of {on_chip} layers on chip, graphs {'on' if graphs else 'off'}")(
        lambda gpu, on_chip=on_chip, graphs=graphs, sampling=sampling: gpu.same_as_cpu(
            DRAFT, *sampling, gpu_flags=["--kv-on-chip", on_chip, "--kv-ring", "2", *([] if graphs else ["--no-graphs"])]))

SPECULATION = {
    "ngram": ["--spec", "ngram", "--gamma", "4"],
    "draft": ["--spec", "draft", "-md", DRAFT, "--gamma", "4"],
    "window": ["--spec", "window", "--draft-window", "128", "--gamma", "3"],
    "h2o": ["--spec", "h2o", "--kv-window", "128", "--gamma", "3"],
    "retrieval": ["--spec", "retrieval", "--budget", "128", "--gamma", "4", "--reselect", "3", "--reselect-queries", "2"],
    "tree": ["--spec", "tree", "-md", DRAFT, "--gamma", "3", "--tree-size", "9"],
    "triforce": ["--spec", "triforce", "-md", DRAFT, "--budget", "128", "--gamma", "5", "--gamma-inner", "2", "--siblings", "2"],
}
for name, flags in SPECULATION.items():
    check(f"--spec {name}, sampled, 3 of 6 layers on chip")(
        lambda gpu, flags=flags: gpu.same_as_cpu(TARGET, *WARM, *flags, gpu_flags=["--kv-on-chip", "3"]))
    check(f"--spec {name}, greedy, every placement, graphs on and off", full=True)(
        lambda gpu, flags=flags: [gpu.same_as_cpu(TARGET, *GREEDY, *flags, gpu_flags=["--kv-on-chip", n, *g])
                                  for n in ("all", "3", "0") for g in ([], ["--no-graphs"])])

for policy in ("h2o", "tova", "snapkv", "pyramidkv", "adakv", "streaming", "knorm", "random", "keydiff", "expected"):
    check(f"--kv-policy {policy}", full=policy not in ("h2o", "tova", "keydiff", "expected"))(
        lambda gpu, policy=policy: gpu.same_as_cpu(TARGET, *WARM, "--kv-policy", policy, "--kv-window", "96"))


CODED = ["-ctk", "bf16", "-ctv", "bf16", "--kv-wire", "coded", "--kv-verify"]


def coded_is_raw(gpu, model, *flags, ranks=1, **variables):
    """Checks that coded tiles change no token of a GPU's run."""
    request = [*gpu.request(model, *flags), "--device", "cuda"]
    raw = gpu.trireme(*request, *CODED, "--kv-wire", "raw", ranks=ranks, SWGPU_COUNT=ranks).stdout
    coded = gpu.trireme(*request, *CODED, ranks=ranks, SWGPU_COUNT=ranks, **variables).stdout
    if not raw.strip() or coded != raw:
        raise Failed(f"ids differ: {' '.join(map(str, request))}\nraw   {raw.strip()}\ncoded {coded.strip()}")


for seed in (1, 2, 3):
    check(f"coded tiles, happens-before, seed {seed}", full=seed > 1)(
        lambda gpu, seed=seed: coded_is_raw(gpu, DRAFT, *WARM, *STREAMED, SWGPU_HB=1, SWGPU_SEED=seed))
    check(f"coded tiles, triforce, happens-before, seed {seed}", full=True)(
        lambda gpu, seed=seed: coded_is_raw(gpu, TARGET, *WARM, *SPECULATION["triforce"], *STREAMED, SWGPU_HB=1, SWGPU_SEED=seed))
    check(f"coded tiles, 2 ranks by NCCL, happens-before, seed {seed}", full=seed > 1)(
        lambda gpu, seed=seed: coded_is_raw(gpu, TARGET, *GREEDY, *STREAMED, ranks=2, SWGPU_HB=1, SWGPU_SEED=seed))


@check("2 ranks by NCCL, streamed")
def two_ranks(gpu):
    gpu.same_as_cpu(DRAFT, *WARM, gpu_flags=STREAMED, ranks=2, SWGPU_COUNT=2)


@check("2 ranks by NCCL, triforce")
def two_ranks_triforce(gpu):
    gpu.same_as_cpu(TARGET, *WARM, *SPECULATION["triforce"], gpu_flags=["--kv-on-chip", "2"], ranks=2, SWGPU_COUNT=2)


@check("2 ranks that add in host memory, triforce, happens-before")
def two_ranks_mailboxes(gpu):
    gpu.same_as_cpu(TARGET, *WARM, *SPECULATION["triforce"], gpu_flags=["--kv-on-chip", "2"], ranks=2, SWGPU_COUNT=2,
                    TRIREME_SHM_SUMS=1, SWGPU_HB=1)


@check("2 ranks measure which way they add faster", full=True)
def two_ranks_measure(gpu):
    request = gpu.request(DRAFT, *WARM)
    measured = gpu.trireme(*request, "--device", "cuda", ranks=2, SWGPU_COUNT=2, TRIREME_SHM_SUMS="")
    if measured.stdout != gpu.on_cpu(request, 2) or "host memory (" not in measured.stderr:
        raise Failed(f"ids or log: {measured.stdout}{measured.stderr}")


@check("2 ranks by NCCL, one set of tokens for a layer")
def two_ranks_one_set(gpu):
    gpu.same_as_cpu(TARGET, *WARM, "--kv-policy", "tova", "--kv-window", "96", ranks=2, SWGPU_COUNT=2)


@check("--kv-dump of retrieved chunks, graphs on and off")
def retrieved_chunks(gpu):
    dumps = []
    for flags in (["--device", "cpu"], ["--device", "cuda"], ["--device", "cuda", "--no-graphs"], ["--device", "cuda", "--kv-on-chip", "3"]):
        dump = gpu.path("chunks.jsonl")
        gpu.trireme(*gpu.request(TARGET, *GREEDY, *SPECULATION["retrieval"], "--kv-dump", dump), *flags)
        dumps.append(dump.read_text())
    if not dumps[0] or any(d != dumps[0] for d in dumps):
        raise Failed(f"dumps of {[len(d) for d in dumps]} bytes differ")


@check("2 ranks on one GPU, streamed")
def one_gpu(gpu):
    gpu.same_as_cpu(DRAFT, *WARM, gpu_flags=["--kv-on-chip", "1"], ranks=2)


@check("3 and 4 ranks by NCCL, 3 in host memory, one of them without feed-forward columns")
def many_ranks(gpu):
    for ranks, in_host_memory in ((3, 0), (4, 0), (3, 1)):
        gpu.same_as_cpu(NINE_HEADS, *GREEDY, ranks=ranks, SWGPU_COUNT=ranks, TRIREME_SHM_SUMS=in_host_memory)


@check("score: pairs, and continuations of one context as branches of one forward")
def scored_pairs(gpu):
    """In f32: the log probabilities of the CPU, within 1e-3 and 1e-5 of their value."""
    verses = gpu.text.read_text()
    contexts = [verses[:420], verses[:430], verses[:60]]
    pairs = [{"context": context, "continuation": text} for context in contexts for text in (" And God said", " light", " the waters.")]
    file = gpu.path("pairs.jsonl")
    file.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    request = ["score", "-m", TARGET, "--data", file, *EXACT, "--threads", "1", "--no-progress"]
    results = [[json.loads(line) for line in gpu.trireme(*request, "--device", *device).stdout.splitlines()]
               for device in (["cpu"], ["cuda"], ["cuda", "--kv-on-chip", "2"])]
    if len(results[0]) != len(pairs):
        raise Failed(f"{len(results[0])} results of {len(pairs)} pairs")
    for other in results[1:]:
        for cpu, cuda in zip(results[0], other, strict=True):
            near = abs(cpu["logprob"] - cuda["logprob"]) <= 1e-3 + 1e-5 * abs(cpu["logprob"])
            if not near or cpu["greedy"] != cuda["greedy"] or cpu["tokens"] != cuda["tokens"]:
                raise Failed(f"CPU {cpu}, GPU {cuda}")


@check("snapshots in both directions")
def snapshots(gpu):
    request = gpu.request(DRAFT, *WARM, n=16)
    whole = gpu.on_cpu(request)
    for writer, reader in (("cpu", "cuda"), ("cuda", "cpu")):
        file = gpu.path("snapshot.h5")
        first = gpu.request(DRAFT, *WARM, "--save-kv", file, n=5)
        gpu.trireme(*first, "--device", writer)
        resumed = gpu.trireme(*request, "--load-kv", file, "--device", reader).stdout
        if resumed != whole:
            raise Failed(f"{writer} to {reader}: {resumed.strip()}, expected {whole.strip()}")


@check("families: biases, inner norms, windows, fused matrices, a part of each head rotated")
def families(gpu):
    tiny = ROOT / "tests/data/tiny"
    for name in ("qwen2-window", "qwen3-norms", "llama-bias", "phi3-long"):
        gpu.same_as_cpu(tiny / name, *GREEDY, "-c", "320", gpu_flags=["--kv-on-chip", "1"], n=8)
    gpu.same_as_cpu(tiny / "qwen3-norms", *GREEDY, ranks=2, n=6, SWGPU_COUNT=2)


EIGHT_BITS = ["-ctk", "q8_0", "-ctv", "q8_0"]


@check("8-bit KV: streamed, mixed types, eviction, a draft's window")
def eight_bits(gpu):
    gpu.same_as_cpu(DRAFT, *WARM, *EIGHT_BITS, gpu_flags=["--kv-on-chip", "1"])
    gpu.same_as_cpu(DRAFT, *GREEDY, "-ctk", "q8_0", "-ctv", "f16", n=10)
    gpu.same_as_cpu(TARGET, *GREEDY, *EIGHT_BITS, "--kv-policy", "h2o", "--kv-window", "96", n=10)
    gpu.same_as_cpu(TARGET, *GREEDY, *EIGHT_BITS, *SPECULATION["triforce"], gpu_flags=["--kv-on-chip", "2"], n=10)


@check("8-bit KV: placement, graphs and chains change no token of a GPU's run")
def eight_bits_alike(gpu):
    request = ["generate", "-m", TARGET, "-f", gpu.text, "-n", "12", *GREEDY, *EIGHT_BITS, "--print", "ids", "--no-progress", "--ignore-eos",
               "--device", "cuda"]
    ids = {gpu.trireme(*request, *more).stdout
           for more in ([], ["--no-graphs"], ["--kv-on-chip", "0"], SPECULATION["triforce"], ["--spec", "h2o+full"])}
    if len(ids) != 1:
        raise Failed(f"{len(ids)} different answers: {ids}")


@check("8-bit KV: every policy, snapshots, samples, 2 ranks", full=True)
def eight_bits_everywhere(gpu):
    for policy in ("keydiff", "expected", "snapkv", "streaming"):
        gpu.same_as_cpu(TARGET, *GREEDY, *EIGHT_BITS, "--kv-policy", policy, "--kv-window", "96", n=10)
    gpu.same_as_cpu(TARGET, *GREEDY, *EIGHT_BITS, "--kv-policy", "h2o", "--kv-window", "96", "--kv-rolling", n=10)
    gpu.same_as_cpu(DRAFT, *WARM, *EIGHT_BITS, "--num-samples", "3", "-np", "3", gpu_flags=["--kv-on-chip", "1"])
    gpu.same_as_cpu(TARGET, *GREEDY, *EIGHT_BITS, ranks=2, n=8, SWGPU_COUNT=2)
    request = gpu.request(DRAFT, *GREEDY, *EIGHT_BITS, n=10)
    whole = gpu.on_cpu(request)
    for writer, reader in (("cpu", "cuda"), ("cuda", "cpu")):
        file = gpu.path("eight.h5")
        gpu.trireme(*gpu.request(DRAFT, *GREEDY, *EIGHT_BITS, "--save-kv", file, n=5), "--device", writer)
        resumed = gpu.trireme(*request, "--load-kv", file, "--device", reader).stdout
        if resumed != whole:
            raise Failed(f"{writer} to {reader}: {resumed.strip()}, expected {whole.strip()}")


@check("quantised files: weights in blocks, streamed, on 2 ranks, drafting")
def blocks(gpu):
    for name in ("q4_k_m", "q8_0_mixed", "q3_k", "mxfp4", "phi3_q4_0"):
        gpu.same_as_cpu(GGUF / f"{name}.gguf", *GREEDY, *BLOCKS, "-c", "320", gpu_flags=["--kv-on-chip", "1"], n=6)
    gpu.same_as_cpu(GGUF / "q4_k_m.gguf", *GREEDY, *BLOCKS, ranks=2, n=6, SWGPU_COUNT=2)
    gpu.same_as_cpu(GGUF / "q8_0.gguf", *GREEDY, *BLOCKS, "--spec", "ngram", "--gamma", "4", n=8)


@check("quantised files: f16 products, graphs and placement change no token")
def blocks_in_f16(gpu):
    request = ["generate", "-m", GGUF / "q4_k_m.gguf", "--prompt-ids", gpu.ids, "-n", "8", *GREEDY, "--print", "ids", "--no-progress",
               "--ignore-eos", "--device", "cuda"]
    ids = {gpu.trireme(*request, *more).stdout for more in ([], ["--no-graphs"], ["--kv-on-chip", "0"])}
    if len(ids) != 1:
        raise Failed(f"{len(ids)} different answers: {ids}")


@check("layers that share KV")
def sharing(gpu):
    gpu.same_as_cpu(SHARED_LAYERS, *GREEDY, "--passes", "3", gpu_flags=["--kv-on-chip", "1"], n=6)


@check("samples side by side")
def samples(gpu):
    gpu.same_as_cpu(DRAFT, *WARM, "--num-samples", "3", "-np", "3", gpu_flags=["--kv-on-chip", "1"])


for chain, more, full in (("ngram", ["--no-graphs"], False), ("ngram", [], True), ("ngram", ["--kv-on-chip", "2"], True),
                          ("triforce", [], False), ("triforce", ["--no-graphs"], True), ("triforce", ["--kv-on-chip", "2"], True)):
    check(" ".join(["parallel samples, --spec", chain, *more]), full=full)(
        lambda gpu, chain=chain, more=more: gpu.same_as_cpu(
            TARGET, *WARM, *SPECULATION[chain], "--num-samples", "3", "-np", "3", gpu_flags=more, n=10))


@check("parallel samples that evict")
def evicting_samples(gpu):
    for policy in ("h2o", "keydiff"):
        gpu.same_as_cpu(TARGET, *WARM, "--kv-policy", policy, "--kv-window", "96", "--num-samples", "3", "-np", "2", n=10)


def f16_ids(gpu, *more, **environment):
    request = ["generate", "-m", DRAFT, "-f", gpu.text, "-n", "12", *GREEDY, "--dtype", "f16", "--print", "ids", "--no-progress",
               "--device", "cuda"]
    return gpu.trireme(*request, *more, **environment).stdout


@check("f16: graphs and placement change no token")
def half(gpu):
    ids = {f16_ids(gpu, *more) for more in ([], ["--no-graphs"], ["--kv-on-chip", "0"])}
    if len(ids) != 1:
        raise Failed(f"{len(ids)} different answers: {ids}")


def same_bits_of_f16(gpu, seed):
    """Attention on tensor cores: KV that is streamed in parts gives the tokens of KV on chip."""
    ids = {f16_ids(gpu), f16_ids(gpu, *STREAMED, SWGPU_HB=1, SWGPU_SEED=seed)}
    if len(ids) != 1:
        raise Failed(f"{len(ids)} different answers: {ids}")


for seed in range(1, 11):
    check(f"happens-before, streamed, seed {seed}", full=seed > 3)(lambda gpu, seed=seed: gpu.same_as_cpu(
        DRAFT, *WARM, gpu_flags=STREAMED, SWGPU_HB=1, SWGPU_SEED=seed))
    check(f"happens-before, retrieval streamed, seed {seed}", full=seed > 3)(lambda gpu, seed=seed: gpu.same_as_cpu(
        DRAFT, *WARM, *SPECULATION["retrieval"], gpu_flags=["--kv-on-chip", "1"], SWGPU_HB=1, SWGPU_SEED=seed))
    check(f"happens-before, triforce streamed, seed {seed}", full=seed > 1)(lambda gpu, seed=seed: gpu.same_as_cpu(
        TARGET, *WARM, *SPECULATION["triforce"], gpu_flags=STREAMED, SWGPU_HB=1, SWGPU_SEED=seed))
    check(f"happens-before, f16, streamed in parts, seed {seed}", full=seed > 1)(lambda gpu, seed=seed: same_bits_of_f16(gpu, seed))
for mode in ("lazy", "eager"):
    check(f"scheduler {mode}, streamed")(lambda gpu, mode=mode: gpu.same_as_cpu(
        DRAFT, *WARM, gpu_flags=STREAMED, SWGPU_MODE=mode))


@check("small copies do not use the copy engine")
def small_copies(gpu):
    out = gpu.path("statistics")
    gpu.trireme(*gpu.request(DRAFT, *WARM), "--device", "cuda", SWGPU_OUT=out, SWGPU_STATS=1)
    short = statistics(out)
    out = gpu.path("statistics")
    gpu.trireme(*gpu.request(DRAFT, *WARM, n=40), "--device", "cuda", SWGPU_OUT=out, SWGPU_STATS=1)
    long = statistics(out)
    # With all KV on chip, a token copies only its id to the host.
    more = long["cudaMemcpyAsync"] - short["cudaMemcpyAsync"]
    if more > 28:
        raise Failed(f"{more} copies by the engine for 28 more tokens")


def statistics(out):
    return {name: int(n) for n, name in re.findall(r"call (\d+) (\w+)", out.read_text())}


@check("--host-memory overrides what the system reports")
def host_memory(gpu):
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
        print("    not shown: unshare --mount is not allowed", file=sys.stderr)
        return
    meminfo = gpu.path("meminfo")
    meminfo.write_text("MemTotal: 65536 kB\nMemAvailable: 1024 kB\n")
    inside = ["unshare", "--mount", "bash", "-c", 'mount --bind "$1" /proc/meminfo && shift && exec "$@"', "_", meminfo]
    request = [*gpu.request(DRAFT, *GREEDY), "--device", "cuda", "--kv-on-chip", "0"]
    refused = gpu.run([*inside, gpu.program, *request], status=71)
    if refused.stderr.count("trireme: error: ") != 1:
        raise Failed(refused.stderr)
    gpu.run([*inside, gpu.program, *request, "--host-memory", "1G"])


def dependent_launch_library(gpu):
    library, cuda = gpu.path("dependent_launch.so"), pathlib.Path(shutil.which("nvcc")).resolve().parent.parent
    gpu.run(["g++", "-shared", "-std=c++20", "-O2", "-fPIC", "-isystem", cuda / "include",
             ROOT / "tests/software_gpu/dependent_launch.cc", "-o", library])
    return {"SWGPU_CC": 90, "LD_PRELOAD": library}


def dependent(gpu, model, *flags, ranks=1, **variables):
    """Checks dependent launches: each comes directly after a kernel of its stream, each rank makes some, and the ids
    are the CPU's."""
    launches = gpu.path("launches")
    gpu.same_as_cpu(model, *flags, ranks=ranks, **variables, **dependent_launch_library(gpu), SWGPU_COUNT=ranks, TRIREME_PDL=1,
                    TRIREME_LAUNCHES=launches)
    lines = launches.read_text().splitlines()
    if len(lines) != ranks or any(line.startswith("0 ") for line in lines):
        raise Failed(f"{ranks} ranks made these launches: {lines}")


check("dependent launches, graphs")(lambda gpu: dependent(gpu, DRAFT, *GREEDY))
check("dependent launches, graphs and events of a trace", full=True)(
    lambda gpu: dependent(gpu, DRAFT, *WARM, gpu_flags=[*STREAMED, "--trace", gpu.path("trace.json")]))
check("dependent launches, streamed without graphs")(
    lambda gpu: dependent(gpu, DRAFT, *WARM, gpu_flags=[*STREAMED, "--no-graphs"]))
check("dependent launches, blocks of a quantised file")(
    lambda gpu: dependent(gpu, GGUF / "q4_k_m.gguf", *GREEDY, *BLOCKS, n=6))
for spec in ("triforce", "h2o", "tree"):
    check(f"dependent launches, --spec {spec}", full=True)(
        lambda gpu, spec=spec: dependent(gpu, TARGET, *WARM, *SPECULATION[spec], gpu_flags=["--kv-on-chip", "3"]))
for mailboxes in (0, 1):
    check(f"dependent launches, triforce, 2 ranks that add {'in host memory' if mailboxes else 'by NCCL'}", full=mailboxes == 0)(
        lambda gpu, mailboxes=mailboxes: dependent(gpu, TARGET, *WARM, *SPECULATION["triforce"], gpu_flags=["--kv-on-chip", "2"],
                                                   ranks=2, TRIREME_SHM_SUMS=mailboxes))


@check("dependent launches are refused on compute capability 8.9, and without code for 9.0")
def dependent_refused(gpu):
    refused = gpu.trireme(*gpu.request(DRAFT), "--device", "cuda", status=78, SWGPU_CC=89, TRIREME_PDL=1)
    if refused.stderr.count("trireme: error: ") != 1 or "8.9" not in refused.stderr:
        raise Failed(refused.stderr)
    lacks_code = gpu.trireme(*gpu.request(DRAFT), "--device", "cuda", status=78, SWGPU_CC=90, TRIREME_PDL=1)
    if lacks_code.stderr.count("trireme: error: ") != 1 or "CMAKE_CUDA_ARCHITECTURES" not in lacks_code.stderr:
        raise Failed(lacks_code.stderr)


@check("a GPU of compute capability 8.0 runs, one of 7.5 is refused")
def capabilities(gpu):
    gpu.same_as_cpu(DRAFT, *GREEDY, SWGPU_CC=80)
    refused = gpu.trireme(*gpu.request(DRAFT), "--device", "cuda", status=69, SWGPU_CC=75)
    if "7.5" not in refused.stderr:
        raise Failed(refused.stderr)


@check("kernels: sampling and acceptance")
def sampling_kernels(gpu):
    gpu.gtest(KERNELS, SAMPLING)


@check("kernels: weights in blocks")
def block_kernels(gpu):
    gpu.gtest(KERNELS, "*Block*")


@check("kernels: coded tiles")
def tile_code(gpu):
    gpu.gtest(KERNELS, "TileCode.IsTheSameOnHostAndDevice:TileCode.GivesBackConstants*:TileCode.Counts*:TileCode.DecodesDamaged*")


@check("kernels: attention")
def attention_kernels(gpu):
    gpu.gtest(KERNELS, ATTENTION)


@check("kernels: no race inside a block")
def races(gpu):
    gpu.gtest(KERNELS, RACES, PTX_RACE=1)


@check("engine: graphs of every size, residency, models")
def engine(gpu):
    gpu.gtest(ENGINE, "GpuGraphs.*:ResidencyInShort.*:Models/*:Levels.*")


def smoke_program(gpu):
    """Builds tests/gpu_smoke.cu for the software GPU; returns a script that starts it with its own PTX."""
    folder = gpu.path("smoke")
    folder.mkdir()
    flags = ["nvcc", "-std=c++20", "-O3", "-fmad=false", "--expt-relaxed-constexpr", f"-I{ROOT}", ROOT / "tests/gpu_smoke.cu"]
    subprocess.run([*flags, "-ptx", "-arch=compute_89", "-o", folder / "gpu_smoke.ptx"], check=True, capture_output=True)
    subprocess.run([*flags, "-arch=sm_89", "-cudart", "none", f"-L{gpu.work}/lib", "-Xlinker", "-l:libcudart.so.13", "-o",
                    folder / "gpu_smoke"], check=True, capture_output=True)
    script = folder / "start"
    script.write_text(f'#!/bin/sh\nSWGPU_PTX={folder} exec {folder}/gpu_smoke "$@"\n')
    script.chmod(0o755)
    return script


@check("smoke: hot kernels against double loops")
def smoke(gpu):
    said = gpu.run([smoke_program(gpu), "64"]).stdout
    if "every kernel agrees" not in said or "FAILED" in said:
        raise Failed(said)


@check("tests/gpu.sh: its three commands with small models", full=True)
def gpu_script(gpu):
    start, library = smoke_program(gpu), dependent_launch_library(gpu)
    for command, steps in (("first", 9), ("same", 8), ("long", 5)):
        out = gpu.path(command)
        ended = gpu.run([ROOT / "tests/gpu.sh", command, "--small", "--build", gpu.build, "--out", out], status=None,
                        deadline_s=3000, GPU_SMOKE=start, GPU_SHARDS=2, GPU_KERNELS="Accept.*:Embed*", GPU_ENGINE="GpuGraphs.*", **library)
        passed, failed = map(int, re.search(r"(\d+) passed, (\d+) failed$", ended.stdout.strip()).groups())
        if failed or passed < steps or not (out / f"gpu-{command}.tar.gz").exists():
            raise Failed(f"gpu.sh {command}: {passed} passed, {failed} failed, expected {steps}\n{ended.stdout[-3000:]}")


@check("planted: a wait that is forgotten, a host read of device memory")
def planted(gpu):
    request = [*gpu.request(DRAFT, *WARM), "--device", "cuda", *STREAMED]
    for n in (1, 5, 9, 13, 17):
        gpu.trireme(*request, status=None, findings=["unordered: "], SWGPU_HB=1, SWGPU_DROP=n)
    gpu.run([gpu.build / KERNELS, "--gtest_also_run_disabled_tests", "--gtest_filter=*DISABLED_HostReadOfDeviceMemory"], status=None,
            findings=["the host touches device memory"])


@check("engine: levels, layer sharing, followers", full=True)
def engine_levels(gpu):
    gpu.gtest(ENGINE, "GraphPasses.*:LastRow.*:LayerSharing.*:FollowedPasses.*")


# One test of each kind. The rest of these suites takes hours here and uses the same kernels with other placements of
# tiles.
WHOLE = ("Residency.ChangesNoBitWhereLayersShareKeysAndValues",
         "Residency.SequencesOfOneForwardAreStreamedOneAfterTheOther", "LastRowWhole.IsItsDefinition",
         "LayerSharingWhole.ExactIsDecodingAndAutoStopsBefore")
for test in WHOLE:
    check(f"engine: {test}", full=True)(lambda gpu, test=test: gpu.gtest(ENGINE, test))

SHARDS = 8
for shard in range(SHARDS):
    check(f"kernels: all, {shard + 1} of {SHARDS}", full=True)(
        lambda gpu, shard=shard: gpu.gtest(KERNELS, "*", GTEST_TOTAL_SHARDS=SHARDS, GTEST_SHARD_INDEX=shard))
for shard in range(4):
    check(f"engine: chains, {shard + 1} of 4", full=True)(
        lambda gpu, shard=shard: gpu.gtest(ENGINE, "Chains/*", GTEST_TOTAL_SHARDS=4, GTEST_SHARD_INDEX=shard))

# Calls whose failure does not end the run: those that free resources at the end, and queries.
HARMLESS = {"cudaEventDestroy", "cudaStreamDestroy", "cudaFree", "cudaFreeHost", "cudaHostUnregister", "cudaGraphDestroy",
            "cudaGraphExecDestroy", "ncclCommDestroy", "ncclCommFinalize", "ncclCommGetAsyncError", "cudaGetDevice"}
# What the log says if a call fails that only host memory needs, in which ranks add: NCCL adds alone then.
FALLS_BACK = "not in host memory: "
OUT_OF_MEMORY, LAUNCH_FAILURE, UNHANDLED = 2, 719, 1
ALLOCATES = {"cudaMalloc", "cudaHostAlloc", "cudaHostRegister"}


@check("faults in every CUDA call", full=True)
def faults(gpu):
    """Injects faults into the first call of each name, and into those after a third and two thirds of its calls. The
    last calls are not tested: they belong to the end of a run, when the result is known."""
    tried, wrong = 0, []
    for name, how in {"one GPU": {"ranks": 1}, "two GPUs": {"ranks": 2, "SWGPU_COUNT": 2}}.items():
        request = [*gpu.request(DRAFT, *WARM, *SPECULATION["retrieval"], n=6), "--device", "cuda", "--kv-on-chip", "1"]
        how = {**how, "TRIREME_SHM_SUMS": 1}
        out = gpu.path("statistics")
        gpu.trireme(*request, **how, SWGPU_OUT=out, SWGPU_STATS=1)
        for call, count in sorted(statistics(out).items()):
            code = OUT_OF_MEMORY if call in ALLOCATES else LAUNCH_FAILURE if call.startswith("cuda") else UNHANDLED
            for n in sorted({1, max(1, count // 3), max(1, 2 * count // 3)}):
                tried += 1
                try:
                    ended = gpu.trireme(*request, **how, status=None, findings=None if call in HARMLESS else (),
                                        SWGPU_FAIL=f"{call}:{n}:{code}", TRIREME_TIMEOUT_S=20)
                except Failed as e:
                    wrong.append(f"{name}, {call} {n}: {e}")
                    continue
                errors = [line for line in ended.stderr.splitlines() if "trireme: error: " in line]
                harmless = ended.returncode == 0 and (call in HARMLESS or FALLS_BACK in ended.stderr)
                if not harmless and (ended.returncode not in (69, 71) or len(errors) != 1):
                    wrong.append(f"{name}, {call} {n}: status {ended.returncode}, {len(errors)} error lines\n{ended.stderr[-600:]}")
    print(f"    {tried} faults injected", file=sys.stderr)
    if wrong:
        raise Failed(f"{len(wrong)} of {tried} faults end otherwise:\n" + "\n".join(wrong[:10]))


SAMPLING = "Accept.*:Sample.*-Sample.IsTheLaw*:Sample.DrawsTheDistribution"
ATTENTION = "AttentionDecode.PaddingRows*:AttentionDecode.WeighsEqual*:AttentionPrefill.IsClose*:KvStage.*:KvAppend.*"
RACES = "AttentionSeen.OfDecodedRows:Accept.*"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    options = parser.parse_args()
    gpu = Gpu(options.build.resolve(), options.work.resolve())
    chosen = {**CHECKS, **(FULL if options.full else {})}
    if options.only:
        chosen = {name: f for name, f in {**CHECKS, **FULL}.items() if any(text in name for text in options.only)}
    begin, passed, failed = time.monotonic(), 0, []

    def timed(function):
        start = time.monotonic()
        function(gpu)
        return time.monotonic() - start

    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        running = {pool.submit(timed, function): name for name, function in chosen.items()}
        for done in concurrent.futures.as_completed(running):
            name = running[done]
            try:
                print(f"{name:<72} ok {done.result():6.0f} s", file=sys.stderr)
                passed += 1
            except Exception as e:  # pylint: disable=broad-except  # other checks continue
                print(f"{name:<72} FAILED\n{type(e).__name__}: {e}\n{getattr(e, 'stderr', None) or ''}", file=sys.stderr)
                failed.append(name)
    for name in failed:
        print(f"FAILED: {name}")
    if failed:
        print(f"outputs: {gpu.scratch}")
    else:
        shutil.rmtree(gpu.scratch)
    print(f"{time.monotonic() - begin:.0f} s")
    print(f"{passed} passed, {len(failed)} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
