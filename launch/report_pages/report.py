#!/usr/bin/env python3
"""A page with pictures, in HTML and in Markdown, of the runs in files that `trireme ... --record FILE` has written, or of the
evaluations in files results.csv that `trireme evaluate` has written.

  report.py -o FOLDER FILE...          the same as: trireme report FILE... -o FOLDER

FOLDER/index.html, FOLDER/index.md and pictures replace those of an earlier report. If a file of one of these names was not
written by a report, it is kept, and nothing is written (73). Other exit codes: 65 a damaged record, 66 no such file,
69 h5py or matplotlib is missing, 74 and 77 the folder cannot be written."""

import argparse
import errno
import importlib
import os
import subprocess
import sys

EXIT_DATA, EXIT_NO_INPUT, EXIT_UNAVAILABLE, EXIT_CANT_CREATE, EXIT_IO, EXIT_PERMISSION = 65, 66, 69, 73, 74, 77
NEEDED = ("h5py", "matplotlib")
SYSTEM_PYTHON = "/usr/bin/python3"


def leave(code, text):
    print(f"trireme: error: report: {text}", file=sys.stderr)
    sys.exit(code)


def require_packages():
    missing = []
    for name in NEEDED:
        try:
            importlib.import_module(name)
        except ImportError as e:
            broken = "" if getattr(e, "name", name) == name else f" ({e})"
            missing.append(name + broken)
    if missing and not os.environ.get("TRIREME_PYTHON"):
        use_system_python()
    if missing:
        names = " ".join(name.split()[0] for name in missing)
        packages = " ".join("python3-" + name for name in names.split())
        leave(EXIT_UNAVAILABLE, f"{sys.executable} has no {', '.join(missing)}: {sys.executable} -m pip install {names}"
              f" (Debian: apt-get install {packages}), or name another Python in TRIREME_PYTHON")  # fmt: skip


def use_system_python():
    """Restarts the script with Debian's Python if that has the packages: it may not be the first Python in PATH."""
    if os.path.realpath(sys.executable) == os.path.realpath(SYSTEM_PYTHON) or not os.access(SYSTEM_PYTHON, os.X_OK):
        return
    found = subprocess.run([SYSTEM_PYTHON, "-c", f"import {', '.join(NEEDED)}"], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=False)  # fmt: skip
    if found.returncode == 0:
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, "-B", *sys.argv])


def write(folder, made, files):
    """Writes the pages. Errors end the program."""
    try:
        files.write(folder, made)
    except files.NotOurs as e:
        leave(EXIT_CANT_CREATE, f"{e}: exists, and no report has written it; name another folder (-o)")
    except PermissionError as e:
        leave(EXIT_PERMISSION, str(e))
    except (FileExistsError, NotADirectoryError) as e:
        leave(EXIT_CANT_CREATE, str(e))
    except OSError as e:
        leave(EXIT_IO, str(e))


def say(folder, what, made):
    pictures = sum(name.endswith(".png") for name in made)
    size = sum(len(content) for content in made.values())
    print(f"{os.path.join(folder, 'index.html')}: {what}, {pictures} pictures, {size / 1e3:.0f} kB")


def report_evaluations(arguments, files):
    """One page of several evaluations: a mode that several have is named with the folder of its file."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python"))
    from trireme_evaluate import pages, table

    try:
        results = table.of_files(arguments.files)
    except FileNotFoundError as e:
        leave(EXIT_NO_INPUT, f"{e.filename}: no such file")
    except PermissionError as e:
        leave(EXIT_PERMISSION, str(e))
    except (OSError, ValueError) as e:
        leave(EXIT_DATA, str(e))
    made = pages.made_of(results)
    write(arguments.output_path, made, files)
    say(arguments.output_path, f"{len(table.modes_of(results))} modes", made)


def main():
    parser = argparse.ArgumentParser(prog="trireme report", description=__doc__.split("\n", 1)[0])
    parser.add_argument("-o", "--output-path", required=True, metavar="FOLDER")
    parser.add_argument("files", nargs="+", metavar="FILE")
    arguments = parser.parse_args()
    evaluations = [path.endswith(".csv") for path in arguments.files]
    if any(evaluations) and not all(evaluations):
        leave(EXIT_DATA, "found records and evaluations (.csv), expected files of one kind: they have a page each")
    require_packages()

    import files
    import pages
    import records

    if all(evaluations):
        report_evaluations(arguments, files)
        return
    try:
        runs = [run for path in arguments.files for run in records.load(path)]
    except records.RecordError as e:
        leave(EXIT_DATA, str(e))
    except OSError as e:
        if e.errno == errno.ENOENT:
            leave(EXIT_NO_INPUT, f"{e.filename}: no such file")
        leave(EXIT_IO, str(e))
    if not runs:
        leave(EXIT_DATA, f"{', '.join(arguments.files)}: no runs")
    folder = arguments.output_path
    try:
        made = pages.make(runs, folder)
        write(folder, made, files)
    except (records.RecordError, TypeError, ValueError, LookupError, ArithmeticError) as e:
        leave(EXIT_DATA, f"{', '.join(arguments.files)}: inconsistent record ({e!r}): the file is damaged, or of another "
              "version")  # fmt: skip
    except PermissionError as e:  # of a record
        leave(EXIT_PERMISSION, str(e))
    say(folder, f"{len(runs)} runs", made)


if __name__ == "__main__":
    main()
