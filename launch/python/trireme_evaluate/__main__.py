"""Program of `trireme evaluate`, which starts it with a JSON object: what to evaluate."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from trireme_evaluate import pages, run, table  # noqa: E402
from trireme_evaluate.items import MissingData  # noqa: E402
from trireme_evaluate.store import OtherSettings  # noqa: E402
from trireme_lm import TriremeError  # noqa: E402

EXIT_DATA, EXIT_NO_INPUT, EXIT_SOFTWARE, EXIT_CANT_CREATE, EXIT_IO, EXIT_SIGINT = 65, 66, 70, 73, 74, 130


def evaluate(task):
    run.run(task)
    if task["shards"] > 1:
        return
    results = table.load(task)
    print(table.markdown(results), end="")
    for line in pages.write(Path(task["output"]), results):
        print(f"trireme: {line}", file=sys.stderr)


SYSTEM_PYTHON = "/usr/bin/python3"


def use_python_with_pictures():
    """Restarts the script with Debian's Python if that one has matplotlib and this one has not."""
    if importlib.util.find_spec("matplotlib") or os.environ.get("TRIREME_PYTHON") or not os.access(SYSTEM_PYTHON, os.X_OK):
        return
    if os.path.realpath(sys.executable) == os.path.realpath(SYSTEM_PYTHON):
        return
    found = subprocess.run([SYSTEM_PYTHON, "-c", "import matplotlib"], stderr=subprocess.DEVNULL, check=False)
    if found.returncode == 0:
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, "-B", *sys.argv])


def main():
    use_python_with_pictures()
    try:
        evaluate(json.loads(sys.argv[1]))
    except MissingData as e:
        leave(EXIT_NO_INPUT, e)
    except (ValueError, OtherSettings) as e:
        leave(EXIT_DATA, e)
    except TriremeError as e:
        leave(e.status if e.status and e.status > 0 else EXIT_SOFTWARE, e)
    except pages.NotOurs as e:
        leave(EXIT_CANT_CREATE, f"{e}: exists, and no evaluation has written it; name another folder (-o)")
    except OSError as e:
        leave(EXIT_IO, e)
    except KeyboardInterrupt:
        leave(EXIT_SIGINT, "stopped; the same command continues")


def leave(code, why):
    text = str(why).removeprefix("trireme: error: ")
    print(f"trireme: error: evaluate: {text}", file=sys.stderr)
    sys.exit(code)


main()
