#!/usr/bin/env python3
"""Runs every command that README, docs/ and configs/ show, with small models, short texts and few tokens. Output that a
document shows after a command must be what the command prints: for plan exactly, else with numbers and names masked.

  documented.py TRIREME [--list] [--only TEXT]

MODEL, TEXT and similar names are replaced by small files. Flags that are appended to a command reduce its large
numbers. `plan` runs unchanged, for the shapes in configs/models. tests/slurm.sh runs the sbatch lines. Last line: "N of
N commands run; M lines of output are as shown"."""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests/data"
MODEL, DRAFT, SHARING = DATA / "models/kjv-target", DATA / "models/kjv-draft", DATA / "models/kjv-lckv"
NAMES = {"MODEL": MODEL, "DEMO_MODEL": MODEL, "YARN_LLAMA_2_7B_128K": MODEL, "DRAFT": DRAFT, "LLAMA_68M": DRAFT, "TINYLLAMA_LCKV": SHARING,
         "TEXT": "book.txt", "LONG_TEXT": "book.txt", "BOOK.txt": "book.txt", "kjv_4096.txt": "book.txt", "PAIRS.jsonl": "pairs.jsonl", "DATA": "data", "C": "64"}
SHAPES = {"MODEL": ROOT / "configs/models/llama-2-7b-128k", "DRAFT": ROOT / "configs/models/llama-68m"}
# Lines of output in documents: log lines, rows of tables, results, and what plan prints.
OUTPUT = re.compile(r"    (\[0/1 |\| (?!-)|\{\"(index|tokens)\"|[\d.]+ (ms|times) )")
# The comment that follows the command of a line.
COMMENT = re.compile(r"(  +#.*|   +[a-z(].*|, or .*|, from .*|; with .*)$")


def commands():
    """Yields (file, command, lines of output that the file shows for it) of all commands, in the order of the files."""
    files = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "configs/README.md", *sorted((ROOT / "configs").glob("*.ini")),
             *sorted((ROOT / "launch/slurm").glob("*.sbatch"))]
    for file in files:
        if file.name == "ledger.md":  # commands of earlier commits
            continue
        text = re.sub(r"\\\n(# )?\s*", " ", file.read_text())
        found = []
        for line in text.splitlines():
            if OUTPUT.match(line) and found:
                found[-1][2].append(line.strip())
            shown = line.lstrip("#").strip()
            if not line.startswith(("    ", "#")) or "sbatch " in shown.split(" generate")[0]:
                continue
            if re.match(r"(mpirun -n \d+ )?(build/release/launch/)?trireme [a-z]+ -", shown) or re.match(r"\S*trireme report ", shown):
                found.append((file, COMMENT.sub("", shown), []))
        yield from found


def masked(line):
    """The words of a line of output, in order: of a table's row the mode, of results the keys."""
    if line.startswith("| ") and not line.startswith("| mode"):
        return [line.split("|")[1].strip()]
    if line.startswith("{"):
        return re.findall(r'"([\w-]+)":', re.sub(r'"request":\{.*?\}', '"request":', line))  # requests have any keys
    line = re.sub(r"^\[0/1 [\d.]+s\] ", "", line)
    return [word.removesuffix("s") for word in re.findall(r"[A-Za-z_/]+(?![\w.])", re.sub(r"\d[\w.]*", "", line))]


def appears(line, output):
    """Whether a line of the output has the shown line's words in order."""
    def has(other):
        words = iter(masked(other))
        return all(word in words for word in masked(line))

    return any(has(other) for other in output)


def modes_of(words):
    """The --modes in effect, with fewer layers on chip."""
    modes = words[words.index("--modes") + 1] if "--modes" in words else None
    if modes is None and "--config" in words:
        name = words[words.index("--config") + 1]
        for line in (ROOT / (name if "/" in name else f"configs/{name}.ini")).read_text().splitlines():
            modes = line.split("=")[1].strip() if line.startswith("modes =") else modes
    if modes is None:
        return []
    return ["--modes", ",".join(dict.fromkeys(re.sub(r"@\d+", "@2", modes).split(",")))]


def smaller(command, words):
    """Flags that are appended to a command, so that it does less."""
    if command == "generate":
        more = ["-n", "8" if "--load-kv" in words else "5", "-t", "1", "--device", "cpu", "--force"]
        return more + ([] if "-m model.h5" in " ".join(words) else ["-c", "1500"])
    if command == "bench":
        text = [] if "--data" in words else ["-f", "book.txt"]
        layers = [] if "--kv-policy" in words or "h2o" in " ".join(modes_of(words)) else ["--kv-on-chip", "2"]
        return [*text, "--prefill", "300", "-n", "4", "-r", "1", "-c", "400", "-t", "1", "--device", "cpu", "--budget", "64", "--limit", "2",
                "--gamma", "3", "--parallel", "1", "-md", str(DRAFT), *layers, *modes_of(words)]
    if command == "batch":
        return ["-n", "4", "-t", "1", "--limit", "2", "--force"]
    if command == "score":
        return ["-t", "1"]
    if command == "chat":
        return ["-n", "4", "-t", "1", "-c", "1900"]
    if command == "evaluate":
        lengths = ["--lengths", "1400,1800"] if "--lengths" in words else []
        return [*lengths, "--limit", "1", "-t", "1", "--force"]
    return ["--force"] if command == "convert" else []


def ready(folder):
    """Makes the files that commands name."""
    verses = (DATA / "texts/kjv_12k.txt").read_text()
    for name in ("long.txt", "book.txt"):
        (folder / name).write_text(verses[:3000])
    (folder / "books").mkdir()
    (folder / "books/b.jsonl").write_text("".join(json.dumps({"text": verses[i * 20:i * 20 + 900]}) + "\n" for i in range(120)))
    pairs = [{"prompt": verses[i * 500:i * 500 + 1500], "summary_gt": verses[:90]} for i in range(3)]
    for name in ("requests.jsonl", "prompts.jsonl"):
        (folder / name).write_text("".join(json.dumps(p) + "\n" for p in pairs))
    summary = {"article": verses[:1500], "summary_gt": verses[:90], "max_tokens": 8, "temperature": 0.3}
    (folder / "xsum.jsonl").write_text(json.dumps(summary) + "\n")
    for name in ("pg19", "lwm"):
        (folder / "data" / name).mkdir(parents=True)
        (folder / "data" / name / "book.txt").write_text(verses[:3000])
    (folder / "pairs.jsonl").write_text(json.dumps({"context": verses[:300], "continuation": verses[300:340]}) + "\n")
    (folder / "turns.jsonl").write_text("".join(json.dumps({"prompt": verses[i * 100:i * 100 + 60]}) + "\n" for i in range(2)))
    (folder / "QUESTION.txt").write_text(verses[:100])
    (folder / "chat_model").mkdir()  # a model with a chat template
    for name in ("config.json", "model.safetensors", "tokenizer.model"):
        shutil.copy(MODEL / name, folder / "chat_model")
    template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}"
    (folder / "chat_model/tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    for name in ("configs", "tests"):
        (folder / name).symlink_to(ROOT / name)


def run(program, shown, folder):
    line = shown.replace('"$(./launch/fetch_demo_model.sh)"', "DEMO_MODEL").replace("[", "").replace("]", "")
    line = re.sub(r"0_1_2_3_4_5_6_[0-9_.]*", "0_1_2_3_4_4", line)
    words = shlex.split(line)
    start = next(i for i, w in enumerate(words) if w.endswith("trireme"))
    command, flags = words[start + 1], words[start + 2:]
    names = SHAPES if command == "plan" else NAMES
    if command == "chat" or "--chat" in flags:
        names = names | {"MODEL": "chat_model"}
    flags = [str(names.get(w, w)) for w in flags]
    launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", *words[1:3]] if start else []
    if command == "report":
        shutil.rmtree(folder / flags[flags.index("-o") + 1], ignore_errors=True)
    return subprocess.run([*launcher, program, command, *flags, *smaller(command, flags)], cwd=folder, capture_output=True, text=True,
                          input="Hello\n" if command == "chat" else None, timeout=300, check=False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trireme")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    chosen = [(f, c, o) for f, c, o in commands() if options.only in c]
    if options.list:
        for file, command, shown in chosen:
            print(f"{file.relative_to(ROOT)}: {command}" + "".join(f"\n    {line}" for line in shown))
        return
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1")
    ran, lines, wrong, outputs = 0, 0, 0, {}
    with tempfile.TemporaryDirectory() as path:
        folder = pathlib.Path(path)
        ready(folder)
        for file, command, shown in chosen:
            ended = run(str(pathlib.Path(options.trireme).resolve()), command, folder)
            if ended.returncode == 0:
                ran += 1
            else:
                print(f"{file.relative_to(ROOT)}: {command}\n    {ended.returncode}: {ended.stderr.strip()[-400:]}")
            output = outputs.setdefault(file, [])  # of the file's commands up to this one
            output += (ended.stdout + ended.stderr).splitlines()
            result = re.search(r" -o (\S+)", command)
            if result and (folder / result.group(1)).is_file():
                output += (folder / result.group(1)).read_text(errors="replace").splitlines()
            for line in shown:
                exact = "trireme plan " in command
                if line in (o.strip() for o in output) or not exact and appears(line, output):
                    lines += 1
                else:
                    wrong += 1
                    print(f"{file.relative_to(ROOT)}: {command}\n    does not print: {line}")
    print(f"{ran} of {len(chosen)} commands run; {lines} lines of output are as shown")
    sys.exit(0 if wrong == 0 and (ran == len(chosen) and ran > 40 and lines > 10 or options.only and ran) else 1)


if __name__ == "__main__":
    main()
