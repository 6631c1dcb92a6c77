"""Records of JSONL files, checked line by line: an error names the file, the line, what was found and what was expected."""

import json
import math
from collections import namedtuple

Field = namedtuple("Field", "expected fits")  # in words, and a test of a value


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def is_strings(value):
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


STRING = Field("a string", lambda value: isinstance(value, str))
STRINGS = Field("a list of strings", is_strings)
MAYBE_STRINGS = Field("null or a list of strings", lambda value: value is None or is_strings(value))
COUNT = Field("a whole number above 0", lambda value: is_number(value) and isinstance(value, int) and value > 0)
TEMPERATURE = Field("a number of at least 0", lambda value: is_number(value) and value >= 0)
TOP_P = Field("a number above 0, at most 1", lambda value: is_number(value) and 0 < value <= 1)


def shown(value):
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def parsed(line):
    """The object that a line contains, or None."""
    try:
        value = json.loads(line.decode("utf-8"))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def records(path, required, optional={}):
    """(line number, record) of the lines that are not blank. `required` and `optional`: fields by key."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            record = parsed(line)
            if record is None:
                found = shown(line.decode("utf-8", "replace").strip())
                raise ValueError(f"{path}:{number}: found '{found}', expected a JSON object")
            for key, field in {**required, **optional}.items():
                if key not in record and key in required:
                    raise ValueError(f"{path}:{number}: found no \"{key}\", expected {field.expected}")
                if key in record and not field.fits(record[key]):
                    raise ValueError(f"{path}:{number}: \"{key}\": found {shown(record[key])}, expected {field.expected}")
            yield number, record
