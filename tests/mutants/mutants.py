#!/usr/bin/env python3
"""Mutants of the GPU kernels, of speculation and of KV eviction: checks that tests on the host notice each of them.

  mutants.py generate SET OUT GROUPS  copies of the files of a set (kernels, speculation, bounded) with every mutant in them, switched by
                                 TRIREME_MUTANT, and OUT/list.txt
  mutants.py run LIST PROGRAM... [--jobs N] [--only N,N]   runs the programs once per mutant; prints survivors and the score.
                                 A % in a program's name stands for the mutant's group (mutant.h). If TRIREME_MUTATED_FILES
                                 names files, only their mutants run
  mutants.py files SET           the files of a set

A mutant is killed when a test of its file fails, crashes or takes five times as long. Survivors must be in survivors.txt with a
reason; those that are equivalent to the original program do not count.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ROWWISE = "MatmulDecode.GivesZero*:Rmsnorm*:Swiglu*:Rope*:Embed*:Add*:GatherRows*:Rowwise*:Inputs*"
QUICK = ("AttentionDecode.SequencesDoNotMix:AttentionDecode.SurvivesScoresFarApart:AttentionDecode.RowsOfOne*:"
         "Attention*.Refuses*:AttentionDecode.A*TheP*:AttentionDecode.AStagedRow*")
ATTENTION = ["*TileBlocks.*:MergeSplitsBlocks.*:" + QUICK, "Attention*.WeighsEqual*", "SlotAttention*:KeyWeights*", "AttentionDecode*:AttentionPrefill*"]
SPLIT = ["*Splits*", QUICK, "Attention*.WeighsEqual*:AttentionSeen.OfT*", "AttentionDecode.M*:AttentionDecode.ARowOfATree*:AttentionSeen*:SlotsWorked*", "AttentionDecode*:AttentionPrefill*"]
SHARES = ["SlotShare*"]
SLOTS = ["SlotsWorked*:SlotsOtherRules*:SlotScores*:Slots.*:SlotsRandom.H*:SlotsRandom.C*", "SlotsRandom.K*"]
# For each file, the tests that run its code, in stages: a mutant that dies in a quick stage skips the slow ones.
KERNELS = {"kernels/cuda/rowwise.h": [ROWWISE], "kernels/cuda/kv.h": ["Kv*", QUICK],
         "kernels/cuda/matmul_decode.h": ["Matmul*:Inputs*", "Types/Blocks.*"],
         "kernels/cuda/matmul_blocks.h": ["Types/Blocks.*"], "kernels/cuda/stored_eight.h": ["Types/Blocks.*"],
           "kernels/cuda/attention_rows.h": ATTENTION, "kernels/cuda/eight.h": ATTENTION,
         "kernels/cuda/attention.h": ATTENTION, "kernels/cuda/merge_splits.h": ATTENTION,
         "kernels/cuda/attention_split.h": SPLIT, "kernels/cuda/split_tile.h": SPLIT, "kernels/cuda/split_vectors.h": SPLIT,
         "kernels/cuda/attention_prefill.h": ["AttentionPrefill.Refuses*:AttentionPrefill.Matches*:AttentionPrefill.Weighs*", "KeyWeights*", "AttentionPrefill*"],
         "kernels/cuda/sample.h": ["Sample*", "Siblings*"], "kernels/cuda/accept.h": ["Accept*"], "dist/cuda/sum_parts.h": ["*SumParts*"], "dist/cuda/mailbox_sum.h": ["*MailboxSum*"],
           "kernels/cuda/slots.h": SLOTS, "kernels/cuda/slot_choose.h": SLOTS + SHARES, "kernels/cuda/select.h": SLOTS,
           "kernels/cuda/slot_share.h": SHARES, "kernels/cuda/key_weights.h": ["KeyWeights*"], "kernels/cuda/rotate.h": ["Rope*", "SlotAttention*", "KeyWeights*"]}
LAW = "SpeculationDistribution.*"
SPECULATION = {"kernels/acceptance.h": ["Acceptance*", LAW], "kernels/place.h": ["Accept.*", "Speculation.*", "Tree.*", LAW], "kernels/cpu/accept.cc": ["Accept.*", "Speculation.*", LAW],
               "decode/speculate.cc": ["SpeculationStats.*:SpeculationState.*:SpeculationSiblings.*:Speculation.*", "Stopping.*", "Retrieval.*", LAW, "Auto*"], "decode/drafter.cc": ["Speculation.*:SpeculationSiblings.*", "Retrieval.*", LAW],
               "decode/decode_state.cc": ["Speculation.*:SpeculationState.*:WindowTest.*", "Retrieval.*", "Auto*", "Tree.*", LAW],
               "decode/branched_chain.cc": ["BranchedChain.*", "Speculation.*", "Siblings*:*Sibling*", LAW],
               "decode/suffix.cc": ["Suffix*"], "decode/suffix_automaton.cc": ["Suffix*"], "decode/gamma_controller.cc": ["GammaController*", "Auto*", "Speculation.*"],
               "decode/tree_drafter.cc": ["Tree.*", LAW],
               "offload/retrieved/retrieval_set.cc": ["RetrievalSet.*", "Retrieval.*"],
               "offload/retrieved/retrieval_shape.cc": ["RetrievalSet.*:RetrievalShape.*:Plan.*", "Retrieval.*"]}
LEVELS = ["BoundedProperties*", "Bounded.*-*Ranks*:*BitsOfAFull*", "Bounded.*"]
BOUNDED = {"kernels/slot_rule.h": SLOTS + LEVELS, "kernels/cpu/slots.cc": SLOTS + SHARES + LEVELS, "kernels/cpu/slot_step.cc": SLOTS + LEVELS,
           "kernels/cpu/slot_share.cc": SHARES + LEVELS, "kernels/cpu/key_weights.cc": LEVELS[:2] + ["KeyWeights*"],
           "offload/evicting/eviction_shape.cc": ["EvictionShape*", *LEVELS], "offload/evicting/evicting_cache.cc": LEVELS, "offload/evicting/evicting_scores.cc": LEVELS,
           "offload/evicting/recent_queries.cc": LEVELS, "model/head_exchange.cc": ["Bounded.*Ranks*", "Bounded.*"],
           "model/head_mean.cc": ["Bounded.*Ranks*", "Bounded.*"]}
SETS = {"kernels": KERNELS, "speculation": SPECULATION, "bounded": BOUNDED}
FILES = KERNELS | SPECULATION | BOUNDED
GROUP = int(re.search(r"kGroup = (\d+)", (HERE / "mutant.h").read_text()).group(1))
WANTED = 0.95

# Operators that may be exchanged: between operands, with blanks around them, as clang-format writes them.
COMPARISONS = [("<=", "l", "<"), (">=", "g", "<"), ("==", "=", "=="), ("!=", "!", "=="), ("<", "<", "<"), (">", ">", "<")]
COMPARE = re.compile(r" (<=|>=|==|!=|<|>) ")
NUMBER = re.compile(r"(?<![\w.])(?<!\de-)(\d+)(?![\w.'])")
BARRIER = re.compile(r"\bgpu\.sync\(\);")
WAIT = re.compile(r"\bgpu\.template wait_copies<(\d)>\(\);")
INDEX = re.compile(r"\bgpu\.block_([xyz])\(\)")
# Lines with values that the compiler must know.
FIXED = re.compile(r"constexpr|\balignas\b|^\s*(template|#|//|///|static_assert|using)|TRIREME_GPU|\boperator\b|^\s*namespace")


def code_of(line):
    """The line without its comment and without the contents of its string literals."""
    return re.sub(r'"[^"]*"', lambda m: '"' + "_" * (len(m.group()) - 2) + '"', line.split("//")[0])


def in_template_arguments(code, at):
    """True if position `at` is between a '<' that has no blank before it and its '>'."""
    depth = 0
    for i, c in enumerate(code[:at]):
        if c == "<" and i > 0 and (code[i - 1].isalnum() or code[i - 1] == "_"):
            depth += 1
        elif c == ">" and depth > 0 and code[i - 1] not in "-= ":
            depth -= 1
    return depth > 0


def in_bound(code, at):
    """True if `at` is the extent of an array that is declared here: `float d[2][4]`, `uint32_t (&q)[4]`, `a[4], b[2]`."""
    opening = code.rfind("[", 0, at)
    if opening < 0 or "]" in code[opening:at]:
        return False
    before = re.sub(r"(\[[^\]]*\])*$", "", code[:opening])
    return re.search(r"\(&\w+\)$", before) is not None or (
        re.search(r"\w>? \w+$", before) is not None and not before.strip().startswith("return")) or (
        re.search(r"^\s*(float|uint32_t|const \w+) .*, \w+$", before) is not None)


def mutants_of(line):
    """Yields (first, end, replacement with {n} for the mutant's number, description) for each mutant of one line."""
    code = code_of(line)
    if FIXED.search(code):
        return
    for m in COMPARE.finditer(code):
        mark, way = next((k, w) for op, k, w in COMPARISONS if op == m.group(1))
        if in_template_arguments(code, m.start(1)):
            continue
        close = " > " if way == "<" else " == "
        compare = "trireme::mutants::Compare<{n}, '" + mark + "'>()"
        yield m.start(1), m.end(1), way + " " + compare + close.rstrip(), f"{m.group(1)} at column {m.start(1)}"
    for m in NUMBER.finditer(code):
        if in_template_arguments(code, m.start()) or in_bound(code, m.start()) or "case " in code:
            continue
        yield m.start(), m.end(), "(" + m.group(1) + " + trireme::mutants::one({n}))", f"{m.group(1)} + 1 at column {m.start()}"
    for m in BARRIER.finditer(code):
        yield m.start(), m.end(), "if (!trireme::mutants::is({n})) gpu.sync();", "no barrier"
    for m in WAIT.finditer(code):
        later = f"gpu.template wait_copies<{int(m.group(1)) + 1}>()"
        yield m.start(), m.end(), "trireme::mutants::is({n}) ? " + later + " : " + m.group(), "waits for one group of copies less"
    for m in INDEX.finditer(code):
        other = {"x": "y", "y": "x", "z": "x"}[m.group(1)]
        yield (m.start(), m.end(), "(trireme::mutants::is({n}) ? gpu.block_" + other + "() : " + m.group() + ")",
               f"block_{other} for block_{m.group(1)}")


def generate(files, out, groups):
    number, listed = 0, []
    for name in files:
        lines, declared, goes_on = (ROOT / name).read_text().splitlines(), False, False
        without_constexpr, body_end = name.endswith(("place.h", "slot_rule.h")), None
        for i, line in enumerate(lines):
            # The compiler calls constexpr functions.
            if body_end is None and not without_constexpr and re.search(r"^\s*(static |inline )*constexpr .*\) {$", line):
                body_end = line[:len(line) - len(line.lstrip())] + "}"
            if body_end is not None:
                body_end = None if line == body_end else body_end
                continue
            # The next lines of a compile-time declaration are also left unchanged.
            declared = (declared or FIXED.search(code_of(line))) and not re.search("[;{]", code_of(line))
            found = [] if declared or goes_on else sorted(mutants_of(line))
            goes_on = declared
            for first, end, text, what in reversed(found):
                number += 1
                listed.append(f"{number}\t{name}:{i + 1}\t{what}\t{lines[i].strip() if first == found[-1][0] else line.strip()}")
                lines[i] = lines[i][:first] + text.replace("{n}", str(number)) + lines[i][end:]
        at = next(i for i, line in enumerate(lines) if line.startswith("#include"))
        lines.insert(at, '#include "tests/mutants/mutant.h"')
        # No constexpr here: the compiler would have to know which mutant is alive.
        lines = [line.replace("inline constexpr", "constexpr").replace("constexpr ", "inline ") if without_constexpr else line for line in lines]
        target = out / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join(lines) + "\n")
    if number >= GROUP * int(groups):
        sys.exit(f"mutants: {number} want more than {groups} groups of {GROUP}: raise their number in CMakeLists.txt")
    (out / "list.txt").write_text("\n".join(listed) + "\n")
    print(f"{number} mutants in {len(files)} files")


def passes(programs, number, stage, patience=None):
    """True if the tests of a stage pass within `patience` seconds (None: no limit)."""
    environment = dict(os.environ, TRIREME_MUTANT=str(number), TRIREME_TIMEOUT_S="600")
    for program in programs:
        try:
            done = subprocess.run([program.replace("%", str(number // GROUP)), "--gtest_break_on_failure", "--gtest_brief=1", "--gtest_filter=" + stage],
                                  env=environment, timeout=patience, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return False
        if done.returncode != 0:
            return False
    return True


def known_survivors():
    """Returns {(file, mutation, code): reason}. There are no line numbers, which would become stale."""
    known = {}
    for line in (HERE / "survivors.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, what, code, reason = line.split("\t")
            known[(name, what, code)] = reason
    return known


def run(arguments):
    jobs, only, programs = os.cpu_count(), None, []
    listed, *rest = arguments
    while rest:
        word = rest.pop(0)
        if word == "--jobs":
            jobs = int(rest.pop(0))
        elif word == "--only":
            only = {int(n) for n in rest.pop(0).split(",")}
        else:
            programs.append(word)
    mutants = [line.split("\t") for line in pathlib.Path(listed).read_text().splitlines()]
    mutants = [m for m in mutants if only is None or int(m[0]) in only]
    if files := os.environ.get("TRIREME_MUTATED_FILES", "").split():
        mutants = [m for m in mutants if m[1].split(":")[0] in files]
    begin, patience = time.time(), {}
    for stage in dict.fromkeys(stage for _, place, *_ in mutants for stage in FILES[place.split(":")[0]]):
        start = time.time()
        if not passes(programs, 0, stage):
            sys.exit(f"mutants: {stage} fail without any mutant")
        patience[stage] = 15 + 5 * (time.time() - start)
        print(f"{stage}: {time.time() - start:.1f} s without a mutant", flush=True)
    known, deaths, survivors = known_survivors(), 0, {"same": 0, "unseen": 0, "unexplained": 0}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        def dies(mutant):
            name = mutant[1].split(":")[0]
            return not all(passes(programs, int(mutant[0]), stage, patience[stage]) for stage in FILES[name])
        dead = pool.map(dies, mutants)
        for (number, place, what, code), died in zip(mutants, dead):
            deaths += died
            if died:
                continue
            reason = known.get((place.split(":")[0], what, code), "unexplained: no reason is given")
            survivors[reason.split(":")[0]] += 1
            print(f"survivor {number}\t{place}\t{what}\t{code}\t{reason}", flush=True)
    others = len(mutants) - survivors["same"]
    print(f"{deaths} of {len(mutants)} mutants killed ({100 * deaths / len(mutants):.1f} %; {100 * deaths / others:.1f} % of the {others} "
          f"that are not the same program), {survivors['unseen']} unseen, {survivors['unexplained']} without a reason, "
          f"{time.time() - begin:.0f} s")
    sys.exit(0 if deaths >= WANTED * others and survivors["unexplained"] == 0 else 1)


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] == "generate":
        generate(SETS[sys.argv[2]], pathlib.Path(sys.argv[3]), sys.argv[4])
    elif len(sys.argv) > 3 and sys.argv[1] == "run":
        run(sys.argv[2:])
    elif len(sys.argv) == 3 and sys.argv[1] == "files":
        print("\n".join(SETS[sys.argv[2]]))
    else:
        sys.exit(__doc__)
