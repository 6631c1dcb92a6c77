"""Files of run records, as `trireme --record` writes them (launch/record/record_file.h): runs with their tables."""

import json

import h5py
import numpy as np

FORMAT = 1  # the newest that this script reads
TABLES = ("texts", "rounds", "checks", "link", "spans")
MOST_ABOUT = 1 << 28  # bytes
MOST_ROWS = 1 << 26


class RecordError(Exception):
    """What is wrong with a file, in one line."""


class Table:
    """A table of whole numbers: table["end_at_ns"] is a column. A table that a run does not have has no rows."""

    def __init__(self, columns=(), values=None):
        self.columns = list(columns)
        self.values = np.zeros((0, len(self.columns)), np.int64) if values is None else values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, column):
        if column not in self.columns:
            return np.full(len(self), -1, np.int64)
        return self.values[:, self.columns.index(column)]

    def where(self, **equal):
        """The rows whose columns have these values."""
        keep = np.ones(len(self), bool)
        for column, value in equal.items():
            keep &= self[column] == value
        return Table(self.columns, self.values[keep])


class Mode:
    """A mode of decoding; a bench has several."""

    def __init__(self, run, number, facts):
        self.run, self.number = run, number
        self.name = text(facts.get("name"), "mode")
        self.side_by_side = whole(facts.get("side_by_side"), 1)
        self.bounded = facts.get("bounded") is True  # the cache evicts: tokens may differ from the model's own
        self.plan = mapped(facts, "plan")
        self.levels = [level for level in listed(facts, "levels") if isinstance(level, dict)]
        self.label = self.name if self.side_by_side == 1 else f"{self.name} ({self.side_by_side} parallel)"

    def table(self, name):
        return self.run.tables[name].where(mode=self.number)

    def rates(self):
        """Tokens per second of each measured continuation, without the first token of each sample."""
        texts = self.table("texts")
        tokens = texts["new_tokens"] - texts["side_by_side"]
        keep = (texts["decode_ns"] > 0) & (tokens > 0)
        return tokens[keep] / texts["decode_ns"][keep] * 1e9

    def is_baseline(self):
        """Whether the mode is autoregressive: the model generates every token by itself, over all keys and values."""
        return self.name.split("@")[0] in ("none", "full") and self.side_by_side == 1


class Run:
    def __init__(self, file, number, about, tables):
        self.file, self.number, self.about, self.tables = file, number, about, tables
        self.command = text(about.get("command"), "run")
        self.modes = [Mode(self, i, m) for i, m in enumerate(listed(about, "modes")) if isinstance(m, dict)]

    def newer(self):
        return whole(self.about.get("format"), 0) > FORMAT


def text(value, otherwise=""):
    return value if isinstance(value, str) else otherwise


def whole(value, otherwise=0):
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def number(value, otherwise=None):
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else otherwise


def listed(about, name):
    """The list of this name; empty if it is missing or not a list."""
    value = about.get(name)
    return value if isinstance(value, list) else []


def mapped(about, name):
    """The object of this name; empty if it is missing or not an object."""
    value = about.get(name)
    return value if isinstance(value, dict) else {}


def read_about(group, where):
    data = group.get("about")
    if not isinstance(data, h5py.Dataset) or data.ndim != 1 or data.dtype != np.uint8 or data.size > MOST_ABOUT:
        raise RecordError(f"{where}: has no `about`: the file is damaged, or no run record")
    try:
        about = json.loads(bytes(data[:]))
    except (ValueError, RecursionError) as e:
        raise RecordError(f"{where}: `about` is not JSON ({e}): the file is damaged") from e
    if not isinstance(about, dict):
        raise RecordError(f"{where}: `about` is not a JSON object: the file is damaged")
    return about


def read_table(group, name, about, where):
    columns = mapped(about, "columns").get(name)
    data = group.get(name)
    if data is None or not isinstance(columns, list):
        return Table()
    fits = isinstance(data, h5py.Dataset) and data.ndim == 2 and data.dtype == np.int64
    if not fits or data.shape[1] != len(columns) or data.shape[0] > MOST_ROWS:
        raise RecordError(f"{where}/{name}: is not a table of {len(columns)} columns: the file is damaged")
    return Table(columns, data[:])


def load(path):
    """The runs of a file, in order."""
    with open(path, "rb"):  # raises the reason if the file cannot be opened
        pass
    try:
        with h5py.File(path, "r") as file:
            runs = file.get("runs")
            if not isinstance(runs, h5py.Group):
                raise RecordError(f"{path}: has no runs: it is not a run record (trireme ... --record FILE)")
            out = []
            for name in sorted((n for n in runs if n.isdecimal()), key=int):
                where, group = f"{path}: runs/{name}", runs[name]
                if not isinstance(group, h5py.Group):
                    raise RecordError(f"{where}: is not a group: the file is damaged")
                about = read_about(group, where)
                tables = {t: read_table(group, t, about, where) for t in TABLES}
                out.append(Run(path, int(name), about, tables))
            return out
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as e:
        reason = " ".join(str(e).split())
        raise RecordError(f"{path}: cannot be read as HDF5 ({reason}): it is damaged, or no run record") from e
