#!/usr/bin/env python3
"""The language of comments, strings, documents and test names: words that this project does not use (docs/glossary.md has
those it does), and sentences of more than 35 words in documents and help.

  words.py ROOT                each use, with its file and line; exit status 1 if there is one
  words.py ROOT --counts       uses of each word
  words.py --self-test"""

import argparse
import io
import pathlib
import re
import sys
import tempfile
import tokenize

MOST_WORDS = 35
FOLDERS = ("runtime", "kernels", "dist", "offload", "model", "decode", "launch", "configs", "tests", "docs")
# Words, and what is written instead. "text", "place" and "turn" have plain meanings as well: readers decide, not this list.
WORDS = {
    r"behind": "after; at context length N; following; past",
    r"tells?|told": "report, return, pass, serialise",
    r"asked for|asks for|ask for": "requested",
    r"wants|wanted": "requires, required, expected",
    r"goes on|go on|went on|taken up|takes up|take up": "continues, resumes",
    r"laws?": "distribution",
    r"beside": "with; together with; in addition to",
    r"cards?": "GPU",
    r"nobody|whoever|somebody": "the caller; the verifier; no one thing by its name",
    r"so many|as many": "n; this many; up to n",
    r"the same (?:of|for)": "like X, with both nouns",
    r"lets? (?:\w+ ){0,2}go|letting go": "evict",
    r"anew": "again",
    r"elders?": "earlier sibling",
    r"at hand": "available, resident",
    r"under way|on (?:its|their) way": "in flight, in progress",
    r"by turns": "interleaved",
    r"[a-z]+, too\b": "also",
}
# Legitimate uses: taken out before the search.
LEGITIMATE = (r"as many(?: [\w-]+){0,4} as", r"card['’]s|wild ?cards?|SD card", r"license|law of large numbers|Amdahl's law", r"--want\w*", r"test wants", r"tell the story in 500 words|First, tell me the title")
PATTERNS = {name: re.compile(rf"(?<![\w-])(?:{name})(?![\w-])", re.IGNORECASE) for name in WORDS}
LEGAL = re.compile("|".join(LEGITIMATE), re.IGNORECASE)


def of_cpp(text):
    """(line, text) of comments, strings and test names."""
    token = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|TEST\w*\((\w+),\s*(\w+)\)', re.S)
    for match in token.finditer(text):
        found = match.group()
        line = text.count("\n", 0, match.start()) + 1
        if found.startswith("TEST"):
            yield line, spaced(match.group(2) + "." + match.group(3))
        elif not found.startswith(("'", '"//')) and not text[:match.start()].rstrip(" ").endswith("#include"):
            yield line, found


def spaced(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name.replace(".", " "))


def of_python(text):
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING) or token.type == getattr(tokenize, "FSTRING_MIDDLE", -1):
            yield token.start[0], re.sub(r"\{[^{}]*\}", "", token.string)  # an f-string's names are code


def of_markdown(text):
    """Prose: no code blocks, no `code`, no addresses of links."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith(("    ", ">")):
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)


def of_shell(text):
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"\s*#(?!!)(.*)|.*\s#\s(.*)", line)
        if match:
            yield number, match.group(1) or match.group(2) or ""


READERS = {".cc": of_cpp, ".h": of_cpp, ".cu": of_cpp, ".cuh": of_cpp, ".py": of_python, ".md": of_markdown, ".sh": of_shell,
           ".ini": of_shell, ".sbatch": of_shell, ".cmake": of_shell}


def sentences(text):
    """(line, words) of a document's sentences; a table's cells, list items and headings end one."""
    start, words = 1, []
    for number, line in of_markdown(text + "\n\n"):
        ends = not line.strip() or line.lstrip().startswith(("#", "|", "- ", "* ")) or re.match(r"\s*\d+\. ", line)
        if ends and words:
            yield start, len(words)
            words = []
        for cell in line.split("|"):
            for piece in re.split(r"(?<=[.!?])\s", cell.strip(" #*-")):
                if not words:
                    start = number
                words += re.findall(r"[A-Za-z]{2,}", piece)
                if re.search(r"[.!?]$", piece) or "|" in line:
                    yield start, len(words)
                    words = []


def help_sentences(text):
    """(line, words) of the sentences of strings; adjacent strings are one."""
    one = r'"(?:\\.|[^"\\\n])*"'
    for match in re.finditer(rf"{one}(?:\s+{one})*", text):
        whole = re.sub(r'"\s+"', "", match.group())
        for piece in re.split(r"(?<=[.!?;])\s", whole):
            yield text.count("\n", 0, match.start()) + 1, len(re.findall(r"[A-Za-z]{2,}", piece))


def uses(path, text):
    """(line, what is wrong) of a file."""
    for line, found in READERS[path.suffix](text):
        shown = LEGAL.sub("", found)
        for name, pattern in PATTERNS.items():
            for match in pattern.finditer(shown):
                yield line + shown.count("\n", 0, match.start()), f"'{match.group()}': write {WORDS[name]}"
    if path.suffix == ".md" or path.name.endswith("_flags.cc"):
        for line, words in sentences(text) if path.suffix == ".md" else help_sentences(text):
            if words > MOST_WORDS:
                yield line, f"a sentence of {words} words, at most {MOST_WORDS}"


def files(root):
    yield root / "README.md"
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            of_data = any(part in ("data", "corpus", "texts") for part in path.relative_to(root).parts)
            if path.suffix in READERS and not of_data and path.name not in ("ledger.md", "words.py"):
                yield path


def found(root):
    return {str(path.relative_to(root)): list(uses(path, path.read_text(errors="replace"))) for path in files(root) if path.exists()}


def wrong(root):
    """Lines that say what is wrong, and where."""
    for name, rows in found(root).items():
        yield from (f"{name}:{line}: {what}" for line, what in rows)


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in ("docs", "runtime", "tests"):
            (root / name).mkdir()
        (root / "README.md").write_text("# Title\n\nPlain words.\n\n    nobody reads code\n\n`behind` is code.\n")
        clean = root / "runtime/clean.h"
        clean.write_text('#include "behind.h"\n/// Returns the tokens of a sequence, as many as fit.\nint behind;\n')
        assert list(wrong(root)) == [], list(wrong(root))
        planted = {"runtime/a.h": ["// tokens behind it", '"nobody has it"', "/* laid anew\n   by turns */", 'TEST(Graph, GoesOn) {}'],
                   "runtime/x_flags.cc": ['"' + 'word ' * 20 + '"\n    "' + 'word ' * 20 + '"'],
                   "docs/b.md": ["It lets the others go.", "So many tokens.", "word " * (MOST_WORDS + 1) + "."],
                   "tests/c.py": ["# told twice\n", 'x = "the elder"\n'], "tests/d.sh": ["# which card it is\n"]}
        for name, pieces in planted.items():
            for piece in pieces:
                (root / name).write_text(piece + "\n")
                assert any(name in line for line in wrong(root)), f"{piece!r} is not noticed in {name}"
            (root / name).unlink()
    print("planted words and sentences are noticed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=pathlib.Path)
    parser.add_argument("--counts", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        self_test()
    elif args.counts:
        rows = [what for per_file in found(args.root).values() for _, what in per_file]
        for name in WORDS:
            print(f"{sum(WORDS[name] in what for what in rows):6} {name}")
        print(f"{sum(what.startswith('a sentence') for what in rows):6} sentences of more than {MOST_WORDS} words")
    else:
        lines = list(wrong(args.root))
        print("\n".join(lines) or "no word that this project avoids")
        sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
