"""Tests of the LongBench suite, with data of a few lines."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "launch/python"))

from trireme_evaluate.items import MissingData, Request  # noqa: E402
from trireme_evaluate.metrics import answers  # noqa: E402
from trireme_evaluate.suites import longbench  # noqa: E402


def record(**changed):
    plain = {"input": "Who?", "context": "Ann.", "answers": ["Ann", "Anna"], "all_classes": None, "language": "en", "length": 10, "_id": "x1"}
    return {**plain, **changed}


def words(text):
    return len(text.split()) + 1


class LongBench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, task, *records):
        (self.folder / f"{task}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))

    def request(self, *tasks, length=0, limit=0, count=words):
        return Request(length=length, count=count, data=self.folder, tasks=tasks, limit=limit)

    def items(self, *tasks, **options):
        return list(longbench.items(self.request(*tasks, **options)))

    def test_there_are_21_data_sets_and_13_of_longbench_e(self):
        self.assertEqual(len(set(longbench.TASKS)), 34)
        self.assertEqual(sum(task.endswith("_e") for task in longbench.TASKS), 13)
        self.assertEqual(set(longbench.PROMPTS), set(longbench.METRICS))

    def test_every_data_set_has_a_metric_and_a_prompt(self):
        for name, metric in longbench.METRICS.items():
            self.assertTrue(callable(getattr(answers, metric)))
            self.assertIn("{context}", longbench.PROMPTS[name]["prompt"])

    def test_prompts_end_as_longbench_writes_them(self):
        ends = {
            "trec": "examples of questions.\n\n{context}\n{input}",
            "triviaqa": "some examples.\n\n{context}\n\n{input}",
            "samsum": "some examples.\n\n{context}\n\n{input}",
            "passage_count": "The final answer is: ",
            "passage_retrieval_en": "The answer is: ",
            "lcc": "{context}Next line of code:\n",
            "repobench-p": "{context}{input}Next line of code:\n",
        }
        for name, end in ends.items():
            self.assertTrue(longbench.PROMPTS[name]["prompt"].endswith(end), name)

    def test_an_item_has_the_prompt_and_settings_of_its_data_set(self):
        self.write("hotpotqa", record(context="A {brace} and {input}."))
        (item,) = self.items("hotpotqa")
        self.assertTrue(item.prompt.startswith("Answer the question based on the given passages. Only give me"))
        self.assertIn("\nA {brace} and {input}.\n", item.prompt)
        self.assertTrue(item.prompt.endswith("\n\nQuestion: Who?\nAnswer:"))
        self.assertEqual((item.task, item.name, item.references), ("hotpotqa", "x1", ("Ann", "Anna")))
        self.assertEqual((item.max_tokens, item.metric, item.stop, item.temperature), (32, "qa_f1", (), 0.0))
        self.assertEqual(item.extra, {"first_line": False, "chat": True, "all_classes": (), "language": "en"})

    def test_few_shot_and_code_tasks_have_no_chat_template(self):
        plain = {"trec", "triviaqa", "samsum", "lsht", "lcc", "repobench-p"}
        for task in longbench.METRICS:
            self.write(task, record())
        found = self.items()
        self.assertEqual({item.task for item in found if not item.extra["chat"]}, plain)
        self.assertEqual({item.task for item in found if item.extra["first_line"]}, {"trec", "triviaqa", "samsum", "lsht"})
        self.assertEqual({item.task: item.stop for item in found if item.stop}, {"samsum": ("\n",)})
        self.assertEqual([item.task for item in found], list(longbench.METRICS))

    def test_classes_reach_the_metric(self):
        self.write("trec", record(all_classes=["Food", "Person"], answers=["Food"]))
        (item,) = self.items("trec")
        self.assertEqual(answers.classification("Food\nPerson", item.references, item.extra), 1.0)

    def test_longbench_e_has_buckets(self):
        self.write("qasper_e", *(record(length=length) for length in (3999, 4000, 7999, 8000)))
        found = self.items("qasper_e")
        self.assertEqual([item.extra["bucket"] for item in found], ["0-4k", "4-8k", "4-8k", "8k+"])
        self.assertEqual({(item.task, item.metric, item.max_tokens) for item in found}, {("qasper_e", "qa_f1", 128)})

    def test_a_line_without_id_is_named_by_its_number(self):
        nameless = record()
        del nameless["_id"]
        self.write("lcc", record(), nameless)
        self.assertEqual([item.name for item in self.items("lcc")], ["x1", "2"])

    def test_the_limit_is_per_task(self):
        self.write("lcc", *[record()] * 3)
        self.write("trec", *[record()] * 3)
        self.assertEqual([item.task for item in self.items(limit=2)], ["trec", "trec", "lcc", "lcc"])

    def test_a_long_prompt_loses_its_middle(self):
        self.write("lcc", record(context=" ".join(f"w{number}" for number in range(1000)) + "\n"))
        (whole,) = self.items("lcc")
        (same,) = self.items("lcc", length=words(whole.prompt) + 64)
        self.assertEqual(same.prompt, whole.prompt)
        (shorter,) = self.items("lcc", length=words(whole.prompt) + 63)
        self.assertEqual(words(shorter.prompt), words(whole.prompt) - 1)
        (short,) = self.items("lcc", length=264)
        self.assertEqual(words(short.prompt), 200)
        kept = len(short.prompt) // 2
        self.assertEqual(short.prompt, whole.prompt[:kept] + whole.prompt[-kept:])
        self.assertGreater(words(longbench.ends(whole.prompt, kept + 1)), 200)

    def test_the_cut_has_at_most_the_tokens_where_counts_vary(self):
        text = "abcdefghi " * 50
        for most in range(1, 80):
            cut = longbench.without_middle(text, most, lambda part: len(part) // 7 + part.count("a"))
            self.assertLessEqual(len(cut) // 7 + cut.count("a"), most)

    def test_a_length_without_room_for_a_prompt_is_an_error(self):
        self.write("lcc", record())
        with self.assertRaisesRegex(ValueError, "lcc: found a length of 64 tokens, expected more: the answer may have 64"):
            self.items("lcc", length=64)

    def test_missing_data_names_the_file_and_its_source(self):
        self.write("lcc", record())
        with self.assertRaisesRegex(MissingData, "qmsum.jsonl is missing.*data.zip of THUDM/LongBench"):
            longbench.items(self.request("lcc", "qmsum"))
        with self.assertRaisesRegex(MissingData, "--data is not given.*data.zip"):
            longbench.items(Request(length=0, count=words))
        (self.folder / "lcc.jsonl").unlink()
        with self.assertRaisesRegex(MissingData, "has no file of a task"):
            longbench.items(self.request())

    def test_an_unknown_task_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "found the task 'nqa', expected one of: narrativeqa, "):
            longbench.items(self.request("nqa"))

    def test_a_malformed_line_is_named(self):
        self.write("lcc", record(), record(answers="Ann"))
        with self.assertRaisesRegex(ValueError, 'lcc.jsonl:2: "answers": found Ann, expected a list of strings'):
            self.items("lcc")

    def test_the_description_names_the_tasks_without_data(self):
        self.write("lcc", record())
        text = longbench.describe(self.request(length=100))
        self.assertTrue(text.startswith("LongBench; long prompts lose their middle; without data: narrativeqa, "), text)
        self.assertNotIn("lcc,", text)
        self.assertEqual(longbench.describe(self.request("lcc")), "LongBench; prompts are not cut")


if __name__ == "__main__":
    unittest.main()
