#!/usr/bin/env python3
"""launch/triforce_data.py: the folders that `trireme bench --dataset` reads."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "launch/triforce_data.py"


class Data(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def made(self, *words, status=0):
        done = subprocess.run([sys.executable, SCRIPT, *map(str, words)], capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr if status else done.stdout

    def test_takes_the_rows_of_triforce(self):
        source, out = self.folder / "train.jsonl", self.folder / "data"
        with open(source, "w") as file:
            for row in range(4551):
                file.write(json.dumps({"document": {"text": f"\u00ef\u00bb\u00bfbook {row}"}}) + "\n")
        self.made("narrativeqa", source, "-o", out)
        books = sorted((out / "lwm").iterdir())
        self.assertEqual(len(books), 20)
        self.assertEqual([books[0].read_text()[3:], books[2].read_text()[3:], books[-1].read_text()[3:]], ["book 0", "book 300", "book 4550"])
        self.assertEqual([path.read_text()[3:] for path in (out / "demo").iterdir()], ["book 300"])
        self.assertIn("exists", self.made("narrativeqa", source, "-o", out, status=73))

    def test_says_what_is_wrong(self):
        source = self.folder / "few.jsonl"
        source.write_text('{"document": {"text": "x"}}\n')
        self.assertIn("1 rows, expected more than 4550", self.made("narrativeqa", source, "-o", self.folder / "a", status=65))
        source.write_text('{"text": "x"}\n')
        self.assertIn("no document.text", self.made("narrativeqa", source, "-o", self.folder / "b", status=65))
        self.assertIn("no such file", self.made("narrativeqa", self.folder / "none", "-o", self.folder / "c", status=66))
        self.assertIn("expected books", self.made("pg19", self.folder / "none", "-o", self.folder / "d", status=66))

    def test_copies_books(self):
        books = self.folder / "books"
        books.mkdir()
        (books / "a.json").write_text('{"text": "a book"}\n')
        self.made("pg19", books, "-o", self.folder / "data")
        self.assertEqual((self.folder / "data/pg19/a.json").read_text(), '{"text": "a book"}\n')


unittest.main()
