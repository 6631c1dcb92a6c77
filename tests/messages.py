#!/usr/bin/env python3
"""The wording of the program's messages: errors, warnings, log lines, report lines. tests/messages.txt holds all of them, so
that a change of wording is one diff, and other tests assert exit codes, flags and keys.

  messages.py ROOT             compares the sources with tests/messages.txt; exit status 1 if they differ
  messages.py ROOT --update    writes tests/messages.txt
  messages.py --self-test

A message is a string literal of an error (fail, require, Error, refuse) or a log line, and any other literal of at least
three words. Help texts are in docs/reference/command-line.md."""

import argparse
import difflib
import pathlib
import re
import sys
import tempfile

FOLDERS = ("runtime", "dist", "kernels", "offload", "model", "decode", "launch")
GOLDEN = "tests/messages.txt"
# Texts with a reference page of their own: help, and the checks of bugs, which name a file and line.
NOT_HERE = re.compile(r"_flags\.cc$|flags/(man_page|completion|help|examples)\.cc$")
LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\((.*?)\)\1"|"((?:\\.|[^"\\\n])*)"|\'(?:\\.|[^\'\\\n])*\'', re.S)
CALLS = re.compile(r"\b(fail|require|Error|AgreedError|refuse\w*|warn\w*|info|error|check|static_assert)\s*\($")
CODE = re.compile(r"Exit::k(\w+)")


def literals(text):
    """(position, text) of string literals; adjacent ones are one."""
    last_end, parts, begin = None, [], 0
    for match in LITERAL.finditer(text):
        content = match.group(3) if match.group(3) is not None else match.group(2)
        if content is None or text[:match.start()].rstrip(" ").endswith("#include"):
            continue
        if parts and not re.sub(r"//[^\n]*", "", text[last_end:match.start()]).strip():
            parts.append(content)
        else:
            if parts:
                yield begin, "".join(parts)
            parts, begin = [content], match.start()
        last_end = match.end()
    if parts:
        yield begin, "".join(parts)


def call_around(text, position):
    """The name of the call whose parentheses contain `position`, and its text up to there."""
    depth = 0
    for i in range(position - 1, max(-1, position - 1500), -1):
        if text[i] == ")":
            depth += 1
        elif text[i] == "(":
            depth -= 1
            if depth < 0:
                name = CALLS.search(text[max(0, i - 40):i + 1])
                if name:
                    return name.group(1), text[i:position]
                depth = 0
        elif text[i] in ";{}" and depth == 0:
            break
    return "", ""


def messages(path, text):
    """(exit code or kind, wording) of a file's messages, in order."""
    for position, wording in literals(text):
        name, before = call_around(text, position)
        if name in ("check", "static_assert"):
            continue
        words = sum(bool(re.search(r"[A-Za-z]{2,}", word)) for word in wording.split())
        if words >= 3 or (name and words >= 1 and " " in wording.strip()):
            code = CODE.search(before)
            yield (code.group(1) if code else "warning" if name.startswith("warn") else name or "text"), wording.replace("\n", "\\n")


def table(root):
    lines = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix not in (".cc", ".h", ".cu") or NOT_HERE.search(name):
                continue
            found = list(messages(path, path.read_text(errors="replace")))
            if found:
                lines += [name] + [f"    {kind}: {wording}" for kind, wording in found]
    return lines


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "launch").mkdir()
        source = root / "launch/a.cc"
        source.write_text('#include "one two three"\nauto key = "a.long_key_name";\n// "a comment of words"\nrequire(x > "a b"[0], Exit::kData, "{}: a tensor "\n    "of {} rows", n);\n'
                          'log::warn("no effect");\nauto s = "two words";\ncheck(ok, "a bug of ours");\n')
        assert table(root) == ["launch/a.cc", "    Data: {}: a tensor of {} rows", "    warning: no effect"], table(root)
    print("errors, warnings and texts are found; comments, includes and checks are not")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        self_test()
        return
    now = table(args.root)
    if args.update:
        (args.root / GOLDEN).write_text("\n".join(now) + "\n")
        return
    then = (args.root / GOLDEN).read_text().splitlines()
    changes = [line for line in difflib.unified_diff(then, now, GOLDEN, "sources", n=0, lineterm="")]
    print("\n".join(changes) or f"{sum(line.startswith(' ') for line in now)} messages are as {GOLDEN} has them")
    if changes:
        sys.exit(f"the wording has changed: if that was meant, run tests/messages.py {args.root} --update")


if __name__ == "__main__":
    main()
