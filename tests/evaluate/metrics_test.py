"""Tests of the metrics of answers and of ROUGE, against tests/data/evaluate/metrics.json."""

import json
import sys
import types
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "launch/python"))

from trireme_evaluate.items import MissingData  # noqa: E402
from trireme_evaluate.metrics import answers  # noqa: E402
from trireme_evaluate.metrics.rouge import rouge  # noqa: E402

GOLDENS = json.loads((ROOT / "tests/data/evaluate/metrics.json").read_text())
CHARACTERS = types.SimpleNamespace(cut=lambda text, cut_all: list(text))  # the goldens' jieba
NAMES = ("qa_f1", "qa_f1_zh", "rouge_l", "rouge_l_zh", "classification", "retrieval", "retrieval_zh", "count", "code_sim")


class Published(unittest.TestCase):
    def test_rouge_has_every_digit_of_the_package(self):
        self.assertGreaterEqual(len(GOLDENS["rouge"]), 30)
        for golden in GOLDENS["rouge"]:
            with self.subTest(text=golden["text"][:60], reference=golden["reference"][:60]):
                self.assertEqual(rouge(golden["text"], golden["reference"]), golden["scores"])

    def test_metrics_have_every_digit_of_longbench(self):
        for name in NAMES:
            scores = set()
            for golden in GOLDENS[name]:
                with self.subTest(metric=name, text=golden["text"][:60]), mock.patch.dict(sys.modules, jieba=CHARACTERS):
                    score = getattr(answers, name)(golden["text"], golden["references"], {"all_classes": golden.get("all_classes", ())})
                    self.assertEqual(score, golden["score"])
                    scores.add(score)
            self.assertGreater(len(scores), 2, f"{name}: the goldens distinguish too little")


class Rules(unittest.TestCase):
    def test_without_references_the_score_is_0(self):
        self.assertEqual(answers.qa_f1("Paris", (), {}), 0.0)

    def test_the_largest_score_over_references_counts(self):
        self.assertEqual(answers.qa_f1("Paris", ("London", "Paris", "Rome"), {}), 1.0)

    def test_first_line_cuts_the_prediction_after_leading_newlines(self):
        text = "\n\nParis\nQuestion: which river?"
        self.assertEqual(answers.qa_f1(text, ("Paris",), {"first_line": True}), 1.0)
        self.assertEqual(answers.qa_f1(text, ("Paris",), {"first_line": False}), 0.4)
        self.assertEqual(answers.qa_f1(" \nParis", ("Paris",), {"first_line": True}), 0.0)

    def test_first_line_applies_to_classes(self):
        extra = {"all_classes": ["Food", "Person"]}
        self.assertEqual(answers.classification("Food\nPerson", ("Food",), {**extra, "first_line": True}), 1.0)
        self.assertEqual(answers.classification("Food\nPerson", ("Food",), extra), 0.5)

    def test_classification_skips_the_class_after_a_removed_one(self):
        # All three classes are found. "a" is removed, so "b" is skipped and remains: 1/2, where a copy of the list gives 1.
        self.assertEqual(answers.classification("ab", ("ab",), {"all_classes": ["a", "b", "ab"]}), 0.5)

    def test_code_sim_takes_a_blank_line_after_a_comment(self):
        # LongBench's rule. lm-evaluation-harness takes the next line that is not blank, which gives 1.
        self.assertEqual(answers.code_sim("# comment\n\nreturn x", ("return x",), {}), 0.0)
        self.assertEqual(answers.code_sim("\n\nreturn x", ("return x",), {}), 1.0)

    def test_code_sim_is_in_whole_per_cent(self):
        self.assertEqual(answers.code_sim("abc", ("abd",), {}), 0.67)

    def test_white_space_after_the_last_sentence_counts_in_rouge(self):
        self.assertLess(answers.rouge_l("fox. ", ("fox",), {}), answers.rouge_l("fox.", ("fox",), {}))

    def test_a_reference_without_its_number_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "found the reference '7', expected 'Paragraph ' and a number"):
            answers.retrieval("7", ("7",), {})

    def test_chinese_metrics_name_the_package_that_they_lack(self):
        for metric in (answers.qa_f1_zh, answers.rouge_l_zh):
            with mock.patch.dict(sys.modules, jieba=None), self.assertRaisesRegex(MissingData, "pip install jieba"):
                metric("北京", ("北京",), {})


if __name__ == "__main__":
    unittest.main()
