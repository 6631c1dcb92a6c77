#!/usr/bin/env python3
"""docs/reference/command-line.md is what --help prints.

  command_line_page.py TRIREME             exit status 1: the page differs
  command_line_page.py TRIREME --update    writes it"""

import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs/reference/command-line.md"
COMMANDS = ("generate", "chat", "batch", "pipe", "score", "evaluate", "bench", "plan", "doctor", "tokenize", "convert", "report")


def help_of(program, *words):
    return subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout.rstrip()


def page(program):
    parts = ["# Command line", "What `trireme --help` and `trireme COMMAND --help` print. `tests/command_line_page.py` writes this page; a test compares it.",
             f"```\n{help_of(program)}\n```"]
    for command in COMMANDS:
        parts.append(f"## {command}\n\n```\n{help_of(program, command)}\n```")
    return "\n\n".join(parts) + "\n"


def main():
    text = page(sys.argv[1])
    if "--update" in sys.argv:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        sys.exit(f"{PAGE} is not what --help prints: run tests/command_line_page.py {sys.argv[1]} --update")


if __name__ == "__main__":
    main()
