"""Tests of the needle in a haystack: lengths, depths, and paraphrased questions that share no word with their needle."""

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "launch/python"))

from trireme_evaluate.items import Request  # noqa: E402
from trireme_evaluate.metrics.strings import match_all  # noqa: E402
from trireme_evaluate.suites import needle  # noqa: E402
from trireme_evaluate.suites.ruler.essays import PACKAGED  # noqa: E402

TOKEN = re.compile(r"\w+|[^\w\s]")
FUNCTION_WORDS = set("a an the of in on to is are was be it if with what which where who how when for does did do would should must "
                     "one that this only they".split())  # fmt: skip


def count(text):
    return len(TOKEN.findall(text))


def made(task="needle", length=1000, **more):
    return list(needle.items(Request(length, count, tasks=(task,), **more)))


def needle_of(item):
    (found,) = [n for n in needle.NEEDLES if n.sentence in item.prompt]
    return found


class Items(unittest.TestCase):
    def test_prompt_and_answer_fill_the_length(self):
        for task in needle.TASKS:
            for length in (512, 1000, 2000, 8000):
                for item in made(task, length):
                    self.assertIn(length - item.max_tokens - count(item.prompt), range(4))
                    self.assertEqual(item.metric, "all")

    def test_depths(self):
        for length in (1000, 8000):
            for item, depth in zip(made(length=length), range(0, 101, 10), strict=True):
                self.assertEqual((item.name, item.extra["depth"]), (f"depth {depth}%", depth))
                context = re.search(r"<book> (.*) </book>", item.prompt)[1]
                before, after = context.split(needle_of(item).sentence)
                share = len(before) / len(before + after)
                missed = before.split() and re.match(r"[^.!?]*[.!?] ?", after)  # the next sentence, which ends after the depth
                self.assertLess(share, depth / 100 + 0.02)
                self.assertGreater((len(before) + (len(missed[0]) if missed else 0)) / len(before + after), depth / 100 - 0.02)
                self.assertRegex(before, r"(^|[.!?]) ?$" if depth < 100 else r" $")

    def test_question_and_answer_belong_to_the_needle(self):
        for task in needle.TASKS:
            asked = set()
            for item in made(task):
                hidden = needle_of(item)
                question = hidden.question if task == "needle" else hidden.paraphrase
                self.assertTrue(item.prompt.endswith(f"Question: {question}\nAnswer:"))
                self.assertEqual(item.references, (hidden.answer,))
                asked.add(question)
            self.assertEqual(len(asked), 5)

    def test_both_tasks_hide_the_same_needle_in_the_same_text(self):
        for plain, paraphrased in zip(made("needle"), made("needle_paraphrased"), strict=True):
            self.assertEqual(needle_of(plain), needle_of(paraphrased))
            self.assertEqual(plain.prompt[:200], paraphrased.prompt[:200])

    def test_chance(self):
        self.assertEqual(made(), made())
        for one, other in zip(made(), made(seed=43)):
            self.assertNotEqual(one.prompt, other.prompt)
        self.assertEqual(len({item.prompt for item in made(limit=33)}), 33)
        self.assertEqual(len({item.name for item in made(limit=33)}), 33)

    def test_few_items_are_spread_over_the_depths(self):
        self.assertEqual([item.extra["depth"] for item in made(limit=3)], [0, 50, 100])
        self.assertEqual([item.extra["depth"] for item in made(limit=1)], [50])
        self.assertEqual([item.name for item in made(limit=12)][-1], "depth 0% (2)")

    def test_errors(self):
        for length in (60, 100):
            with self.assertRaisesRegex(ValueError, f"^needle: length {length} found, expected at least 1\\d\\d tokens"):
                made(length=length)
        with self.assertRaisesRegex(ValueError, "task niah found"):
            made("niah")
        with self.assertRaisesRegex(ValueError, "length 0 found"):
            made(length=0)

    def test_all_tasks_by_default(self):
        self.assertEqual([i.task for i in needle.items(Request(512, count, limit=1))], list(needle.TASKS))
        self.assertIn("King James Bible", needle.describe(Request(512, count)))


class Facts(unittest.TestCase):
    def stems(self, text):
        return {word[:5] for word in re.findall(r"[a-z]+", text.lower()) if word not in FUNCTION_WORDS and len(word) > 1}

    def test_a_paraphrase_shares_no_content_word_with_its_needle(self):
        for n in needle.NEEDLES:
            self.assertEqual(self.stems(n.paraphrase) & self.stems(n.sentence), set())
            self.assertGreater(len(self.stems(n.question) & self.stems(n.sentence)), 2)

    def test_the_answer_stands_in_the_needle_and_nowhere_else(self):
        text = PACKAGED.read_text("utf-8").lower()
        for n in needle.NEEDLES:
            self.assertEqual(match_all(n.sentence, (n.answer,)), 1)
            for other in (text, n.question, n.paraphrase, *(o.sentence for o in needle.NEEDLES if o != n)):
                self.assertEqual(match_all(other, (n.answer,)), 0)


if __name__ == "__main__":
    unittest.main()
