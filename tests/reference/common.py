"""Paths, versions and writers that every reference script shares."""

import importlib.metadata
import json
import pathlib
import subprocess

import numpy as np
import safetensors.numpy

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"


def versions(*packages):
    """Versions of the installed packages, for the golden's record."""
    return {name: importlib.metadata.version(name) for name in packages}


HF_VERSIONS = versions("transformers", "torch", "numpy")


def demo_model():
    """Path of SmolLM2-135M-Instruct (GGUF, Q4_1), fetched into the cache folder when it is not there."""
    script = DATA.parent.parent / "launch" / "fetch_demo_model.sh"
    return pathlib.Path(subprocess.run([script], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())


def write_json(path, value):
    """Writes JSON: one line per top-level key of a dictionary, indented otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(value, dict):
        rows = [f"{json.dumps(key)}: {json.dumps(item, ensure_ascii=True)}" for key, item in value.items()]
        text = "{\n" + ",\n".join(rows) + "\n}\n"
    else:
        text = json.dumps(value, ensure_ascii=True) + "\n"
    path.write_text(text)


def write_tensors(path, tensors):
    """Arrays to safetensors: floats as F32, integers as I32, bytes as U8."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cast = {}
    for name, value in tensors.items():
        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = array.astype(np.float32)
        elif array.dtype != np.uint8:
            array = array.astype(np.int32)
        cast[name] = np.ascontiguousarray(array)
    safetensors.numpy.save_file(cast, path)
    path.chmod(0o644)


def max_abs(array):
    return float(np.max(np.abs(array)))


def significant(value, digits=3):
    """Rounds a float to a few digits, for a record."""
    return float(f"{value:.{digits}g}")
