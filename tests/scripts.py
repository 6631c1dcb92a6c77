#!/usr/bin/env python3
"""Finds scripts that nothing runs: CI (.ci/run, ctest) or tests/full.sh must run every .sh, .py and .sbatch under
tests/ and launch/, or it must be named here with a reason.

  scripts.py [ROOT]      exit status 1, and one line each, for other scripts, and for names here that are out of date
"""
import pathlib
import re
import sys

BY_HAND = {
    "tests/reference/*": "make the goldens that tests read",
    "tests/bench/random_gguf.py": "models for measurements of speed, up to 5 GB",
    "tests/bench/versus_llama_cpp/logits.py": "figures of docs/results/ledger.md; requires llama-cpp-python and h5py",
    "tests/bench/round_picture.py": "a picture of docs/pictures",
    "tests/bench/chat_picture.py": "a picture of docs/pictures",
    "tests/bench/never_loses.py": "a table of docs/results/speculation.md",
    "tests/bench/speculation_forecast.py": "a table of docs/results/speculation.md",
    "tests/packages.sh": "requires a fresh Debian root, and its packages from the network",
}


def mentioned(script, by, text):
    """True if `text`, the content of the file `by`, starts or imports the script."""
    if re.search(rf"(?<![\w.-]){re.escape(script.name)}(?![\w-])", text):
        return True
    if script.suffix != ".py":
        return False
    # Packages as a whole; modules of the same folder, and names that a CMakeLists.txt turns into paths.
    if "python" in script.parts:
        package = script.parts[script.parts.index("python") + 1].removesuffix(".py")
        return bool(re.search(rf"\b{package}\b", text))
    if by.name == "CMakeLists.txt" and f"/{script.parent.name}/${{name}}" in text:
        return bool(re.search(rf"\b{script.stem}\b", text))
    imports = rf"^\s*(import|from) {script.stem}\b"
    return script.parent == by.parent and bool(
        re.search(imports, text, re.M) or (by.name == "CMakeLists.txt" and re.search(rf"\b{script.stem}\b", text)))


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    scripts = {p for top in ("tests", "launch") for end in ("sh", "py", "sbatch") for p in (root / top).rglob(f"*.{end}")}
    reached = {root / ".ci/run", root / "tests/full.sh", *(root / "tests").rglob("CMakeLists.txt"), *(root / "launch").rglob("CMakeLists.txt")}
    texts = {p: p.read_text() for p in scripts | reached}
    texts[root / "tests/scripts.py"] = ""  # the names in this file start nothing
    new = set(reached)
    while new:
        new = {s for s in scripts - reached if any(mentioned(s, by, texts[by]) for by in new)}
        reached |= new
    left = {str(p.relative_to(root)) for p in scripts - reached}
    wrong = []
    named = set()
    for pattern, reason in BY_HAND.items():
        here = {p for p in left if pathlib.PurePath(p).match(pattern)}
        named |= here
        print(f"by hand: {pattern} ({reason})" if here else f"out of date: {pattern}: nothing of that name is left out")
        if not here:
            wrong.append(pattern)
    for path in sorted(left - named):
        print(f"nothing runs {path}: add it to ctest, to tests/all.sh or tests/full.sh, or name it in tests/scripts.py")
        wrong.append(path)
    print(f"{len(scripts)} scripts, {len(scripts) - len(left)} of them run by CI or tests/full.sh")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
