"""Paths, versions and writers that every reference script shares."""

import importlib.metadata
import json
import pathlib

import numpy as np
import safetensors.numpy

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"


def versions(*packages):
    """Versions of the named packages as installed, for the golden's record."""
    return {name: importlib.metadata.version(name) for name in packages}


HF_VERSIONS = versions("transformers", "torch", "numpy")


def write_json(path, value):
    """Compact for long arrays (one line a top-level key), readable for the rest."""
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


def max_abs(array):
    return float(np.max(np.abs(array)))


def significant(value, digits=3):
    """A float short enough to read in a record."""
    return float(f"{value:.{digits}g}")
