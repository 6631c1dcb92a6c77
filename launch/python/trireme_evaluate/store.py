"""Answers of one cell (suite, length, mode) in a file: a line with the cell's settings, then a line for each item.

A line is complete when the next item begins. A run that was stopped may leave a part of a line, which is dropped."""

import json
import os

# They change the speed of a run, not its answers.
SPEED = {"TRIREME_" + name for name in (
    "THREADS", "BIND", "PARALLEL", "KV_ON_CHIP", "KV_RING", "KV_WIRE", "KV_VERIFY", "DEVICE_MEMORY", "HOST_MEMORY", "LINK_GBPS", "LINK_US",
    "GRAPHS", "GRACE", "TRACE", "NO_PROGRESS", "LOG_LEVEL", "REPORT_JSON", "RECORD", "SPEC_COSTS", "FORCE", "MODEL", "LIMIT")}  # fmt: skip


# Flags of the sampler and of lengths: items have their own.
UNUSED = {"TRIREME_" + name for name in ("TEMP", "TOP_K", "TOP_P", "MIN_P", "N_PREDICT")}


class OtherSettings(Exception):
    """The file has answers that were made with other settings."""


def deciding(cell):
    """The settings of a cell that its answers depend on."""
    variables = {name: value for name, value in cell["variables"].items() if value is not None and name not in SPEED | UNUSED}
    return {**cell, "variables": variables}


def differing(old, new):
    """The settings that differ; variables by the names of their flags."""
    names = [key for key in new if key != "variables" and old.get(key) != new[key]]
    before, now = old.get("variables", {}), new["variables"]
    changed = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    return names + ["--" + name.removeprefix("TRIREME_").lower().replace("_", "-") for name in changed] or ["its form"]


def complete(content):
    """The bytes of complete lines: a run that was stopped may leave a part of one."""
    return content[: content.rfind(b"\n") + 1]


class Store:
    def __init__(self, path, cell, again=False):
        """Reads the answers of earlier runs. `cell`: its settings, a dictionary. `again`: discards the answers."""
        self.path, self.answers = path, {}
        cell = json.loads(json.dumps(deciding(cell)))
        content = path.read_bytes() if path.exists() and not again else b""
        kept = complete(content)
        lines = [json.loads(line) for line in kept.splitlines()]
        if lines and lines[0] != cell:
            raise OtherSettings(f"{path}: its answers were made with other settings ({', '.join(differing(lines[0], cell))}); name "
                                "another folder (-o), or discard them (--force)")  # fmt: skip
        for line in lines[1:]:
            self.answers[line["task"], line["name"]] = line
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "r+b" if content else "wb")  # "wb" also empties a file whose answers are discarded
        self._file.truncate(len(kept))
        self._file.seek(len(kept))
        if not lines:
            self._write(cell)

    def add(self, answer):
        self.answers[answer["task"], answer["name"]] = answer
        self._write(answer)

    def close(self):
        self._file.close()

    def _write(self, line):
        self._file.write(json.dumps(line, ensure_ascii=False).encode(errors="replace") + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
