"""Tests of the XSUM suite, with data of a few lines."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "launch/python"))

from trireme_evaluate.items import MissingData, Request  # noqa: E402
from trireme_evaluate.suites import xsum  # noqa: E402

LINE = {"article": "###\nArticle: It rained.\n\nSummarize", "summary_gt": "Rain.", "max_tokens": 64, "temperature": 0.3, "top_p": 0.9, "stop": ["###"]}


class Xsum(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "xsum.jsonl"

    def request(self, *lines, **options):
        self.path.write_bytes(b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines))
        return Request(length=0, count=len, data=self.path, **options)

    def items(self, *lines, **options):
        return list(xsum.items(self.request(*lines, **options)))

    def found(self, *lines):
        """The error's text, without the folder."""
        with self.assertRaises(ValueError) as raised:
            self.items(*lines)
        return str(raised.exception).replace(f"{self.path.parent}/", "")

    def without(self, key):
        return {name: value for name, value in LINE.items() if name != key}

    def test_an_item_has_the_settings_of_its_line(self):
        (item,) = self.items(LINE)
        self.assertEqual((item.task, item.name, item.prompt), ("xsum", "1", LINE["article"]))
        self.assertEqual((item.references, item.metric, item.bos), (("Rain.",), "rouge-2", False))
        self.assertEqual((item.max_tokens, item.temperature, item.top_p, item.stop), (64, 0.3, 0.9, ("###",)))

    def test_settings_of_the_sampler_may_be_absent(self):
        (item,) = self.items({key: LINE[key] for key in ("article", "summary_gt", "max_tokens")})
        self.assertEqual((item.temperature, item.top_p, item.stop), (0.0, 1.0, ()))

    def test_blank_lines_count_in_names_only(self):
        self.assertEqual([item.name for item in self.items(LINE, b"\n", LINE)], ["1", "3"])

    def test_the_limit_ends_before_later_lines_are_read(self):
        self.assertEqual(len(self.items(LINE, LINE, b"{", limit=2)), 2)

    def test_a_line_that_is_not_an_object_is_an_error(self):
        self.assertEqual(self.found(LINE, b'{"article": \n'), "xsum.jsonl:2: found '{\"article\":', expected a JSON object")
        self.assertEqual(self.found([1, 2]), "xsum.jsonl:1: found '[1, 2]', expected a JSON object")
        self.assertIn("xsum.jsonl:1: found '\ufffd", self.found(b"\xff\xfe\n"))

    def test_an_absent_key_is_an_error(self):
        for key in ("article", "summary_gt", "max_tokens"):
            self.assertIn(f'xsum.jsonl:2: found no "{key}", expected ', self.found(LINE, self.without(key)))

    def test_a_wrong_value_is_an_error(self):
        wrong = [
            ("article", 3, "found 3, expected a string"),
            ("max_tokens", 0, "found 0, expected a whole number above 0"),
            ("max_tokens", 1.5, "found 1.5, expected a whole number above 0"),
            ("max_tokens", True, "found true, expected a whole number above 0"),
            ("temperature", -1, "found -1, expected a number of at least 0"),
            ("temperature", float("nan"), "found NaN, expected a number of at least 0"),
            ("top_p", 0, "found 0, expected a number above 0, at most 1"),
            ("stop", "###", "found ###, expected a list of strings"),
        ]
        for key, value, expected in wrong:
            self.assertEqual(self.found({**LINE, key: value}), f'xsum.jsonl:1: "{key}": {expected}')

    def test_missing_data_names_what_is_expected(self):
        with self.assertRaisesRegex(MissingData, "--data is not given; expected the JSONL file"):
            xsum.items(Request(length=0, count=len))
        with self.assertRaisesRegex(MissingData, "xsum.jsonl is not a file"):
            xsum.items(Request(length=0, count=len, data=self.path))

    def test_the_description_names_the_data(self):
        self.assertEqual(xsum.describe(self.request(LINE)), "XSUM of the H2O cookbook; data: xsum.jsonl")

    def test_an_unknown_task_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "found the task 'cnn', expected xsum"):
            xsum.items(self.request(LINE, tasks=("cnn",)))


if __name__ == "__main__":
    unittest.main()
