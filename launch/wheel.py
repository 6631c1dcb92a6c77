#!/usr/bin/env python3
"""A wheel of the packages trireme_lm and trireme_evaluate, with the tree of launch/bundle.sh inside: no compiler, no root.

  launch/bundle.sh TREE --no-tests && launch/wheel.py TREE FOLDER

The wheel requires glibc 2.36, as the tree does. It has no requirements of its own; `trireme report` needs h5py and
matplotlib, chat templates jinja2, lm-evaluation-harness lm-eval: the extras report, chat and lm-eval."""

import base64
import hashlib
import os
import re
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TAG = "py3-none-manylinux_2_36_x86_64"
EXTRAS = {"report": ("h5py", "matplotlib"), "chat": ("jinja2",), "lm-eval": ("lm-eval>=0.4.10",)}
WHEN = (2020, 1, 1, 0, 0, 0)  # of every file: the same tree gives the same wheel


def version():
    found = re.search(r"project\([^)]*VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())
    return found.group(1)


def metadata():
    extras = [f"Provides-Extra: {name}\n" + "".join(f'Requires-Dist: {need}; extra == "{name}"\n' for need in needs)
              for name, needs in EXTRAS.items()]  # fmt: skip
    summary = "Exact decoding of long contexts whose KV cache is larger than GPU memory"
    return (f"Metadata-Version: 2.1\nName: trireme\nVersion: {version()}\nSummary: {summary}\nLicense: Apache-2.0\n"
            f"Requires-Python: >=3.9\n{''.join(extras)}")  # fmt: skip


def contents(tree):
    """(name in the wheel, bytes, whether it is a program) of every file."""
    for package in ("trireme_lm", "trireme_evaluate"):
        for path in sorted((ROOT / "launch/python" / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"{package}/{path.relative_to(ROOT / 'launch/python' / package)}", path.read_bytes(), False
    yield "trireme_lm_eval.py", (ROOT / "launch/python/trireme_lm_eval.py").read_bytes(), False
    yield "trireme.pth", b"import trireme_lm_eval\n", False
    for folder, _, files in sorted(os.walk(tree, followlinks=True)):
        for name in sorted(files):
            path = Path(folder, name)
            yield f"trireme_lm/tree/{path.relative_to(tree)}", path.read_bytes(), os.access(path, os.X_OK)
    info = f"trireme-{version()}.dist-info"
    yield f"{info}/METADATA", metadata().encode(), False
    yield f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: trireme\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode(), False
    yield f"{info}/entry_points.txt", b"[console_scripts]\ntrireme = trireme_lm.command:main\n", False
    yield f"{info}/licenses/LICENSE", (ROOT / "LICENSE").read_bytes(), False


def digest(content):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def write(wheel, tree):
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as out:

        def add(name, content, program=False):
            entry = zipfile.ZipInfo(name, WHEN)
            entry.external_attr = (0o100755 if program else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, content)

        record = []
        for name, content, program in contents(tree):
            add(name, content, program)
            record.append(f"{name},{digest(content)},{len(content)}\n")
        name = f"trireme-{version()}.dist-info/RECORD"
        add(name, "".join([*record, f"{name},,\n"]).encode())


def main():
    if len(sys.argv) != 3 or not Path(sys.argv[1], "run").exists():
        sys.exit("wheel: want TREE FOLDER, where launch/bundle.sh has made TREE")
    wheel = Path(sys.argv[2], f"trireme-{version()}-{TAG}.whl")
    wheel.parent.mkdir(parents=True, exist_ok=True)
    part = wheel.with_suffix(".trireme-part")
    write(part, Path(sys.argv[1]))
    part.replace(wheel)
    print(f"wheel: {wheel}, {wheel.stat().st_size / 1e6:.0f} MB")


main()
