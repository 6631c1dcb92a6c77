"""The table of operations for kill_points.py and io_errors.py. A new output is one row here."""

from conversions import Convert, ConvertTokens, ConvertToStore
from outputs import Batch, Record, dump_logits, kv_dump, report_json, trace
from snapshots import Save, Talk

OPERATIONS = {
    "save": Save,
    "resume": lambda runner: Save(runner, resumes=True),
    "save, 2 ranks": lambda runner: Save(runner, ranks=2),
    "resume, 2 ranks": lambda runner: Save(runner, ranks=2, resumes=True),
    "save, a conversation": Talk,
    "convert": Convert,
    "convert to .h5": ConvertToStore,
    "convert --tokens": ConvertTokens,
    "batch": Batch,
    "--record": Record,
    "--report-json": report_json,
    "--trace": trace,
    "--kv-dump": kv_dump,
    "--dump-logits": dump_logits,
}


def operations(runner, wanted=lambda row: True):
    """Yields the selected rows. Rows are created one at a time, because each takes some runs."""
    for name, make in OPERATIONS.items():
        if wanted(name):
            operation = make(runner)
            operation.name = name
            yield operation
