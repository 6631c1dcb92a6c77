"""Tests of the RULER tasks: lengths, answers that the prompt really has, published sentences, and the string metrics."""

import json
import random
import re
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "launch/python"))

from trireme_evaluate.items import MissingData, Request  # noqa: E402
from trireme_evaluate.metrics.strings import match_all, match_part  # noqa: E402
from trireme_evaluate.suites import ruler  # noqa: E402
from trireme_evaluate.suites.ruler.essays import Essay  # noqa: E402
from trireme_evaluate.suites.ruler.lengths import Fitting, TooShort  # noqa: E402
from trireme_evaluate.suites.ruler.word_lists import words  # noqa: E402
from trireme_evaluate.suites.ruler.words import WordList  # noqa: E402

TOKEN = re.compile(r"\w+|[^\w\s]")
LENGTHS = (512, 1000, 2000, 8000)
ANSWER = {"vt": 30, "cwe": 120, "fwe": 50, "qa_1": 32, "qa_2": 32}  # most tokens; needles: 128
UNIT = {"niah_single_1": 24, "niah_multikey_2": 18, "niah_multikey_3": 32, "vt": 24, "cwe": 9, "fwe": 6, "qa_1": 32, "qa_2": 32}
OWN_TASKS = tuple(task for task in ruler.TASKS if not task.startswith("qa_"))
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


def count(text):
    return len(TOKEN.findall(text))


def made(task, length=1000, limit=4, **more):
    return list(ruler.items(Request(length, count, tasks=(task,), limit=limit, **more)))


def lengths_of(task):
    return LENGTHS[1:] if task == "cwe" else LENGTHS


class Lengths(unittest.TestCase):
    def test_prompt_and_answer_fill_the_length_up_to_a_unit(self):
        for task in OWN_TASKS:
            for length in lengths_of(task):
                for item in made(task, length):
                    with self.subTest(task=task, length=length, item=item.name):
                        self.assertEqual(item.max_tokens, ANSWER.get(task, 128))
                        room = length - item.max_tokens - count(item.prompt)
                        self.assertGreaterEqual(room, 0)
                        self.assertLess(room, UNIT.get(task, 4))

    def test_special_tokens_are_counted(self):
        request = Request(1000, lambda text: count(text) + 50, tasks=("niah_single_2",), limit=2)
        for item in ruler.items(request):
            self.assertIn(count(item.prompt), range(1000 - 128 - 50 - 3, 1000 - 128 - 50 + 1))

    def test_too_short(self):
        for task in OWN_TASKS:
            with self.subTest(task=task), self.assertRaisesRegex(ValueError, rf"^{task}: length 170 found, expected at least \d+ "):
                made(task, 170)
        with self.assertRaisesRegex(ValueError, "^cwe: length 512 found, expected at least 56[0-9] tokens"):
            made("cwe", 512)
        with self.assertRaisesRegex(ValueError, "length 0 found"):
            ruler.items(Request(0, count))

    def test_few_counts(self):
        calls = Counter()

        def counting(text):
            calls["all"] += 1
            return count(text)

        for task in OWN_TASKS:
            calls.clear()
            list(ruler.items(Request(2000, counting, tasks=(task,), limit=10)))
            self.assertLess(calls["all"], 50, task)


class FittingSearch(unittest.TestCase):
    def largest(self, tokens, room, least=1, most=None):
        seen = []

        def counted(text):
            seen.append(int(text))
            return tokens(int(text))

        return int(Fitting("t", counted, room, 0).prompt(str, least, most)), seen

    def test_equals_the_exhaustive_search(self):
        costs = (lambda n: n, lambda n: 40 + 26 * n, lambda n: n * n // 9, lambda n: 7 + n + n // 3 + n // 50, lambda n: n // 2)
        for number, tokens in enumerate(costs):
            for room in (41, 66, 67, 500, 999, 4321):
                best = max((n for n in range(1, room + 1) if tokens(n) <= room), default=None)
                with self.subTest(cost=number, room=room):
                    if best is None:
                        self.assertRaises(TooShort, self.largest, tokens, room)
                        continue
                    found, seen = self.largest(tokens, room)
                    self.assertEqual(tokens(found) if tokens(best) == room else found, room if tokens(best) == room else best)
                    self.assertLess(len(seen), 22)

    def test_bounds(self):
        self.assertEqual(self.largest(lambda n: n, 1000, 3, 20)[0], 20)
        self.assertEqual(self.largest(lambda n: n, 5, 5, 20)[0], 5)
        with self.assertRaisesRegex(TooShort, "^t: length 4 found, expected at least 5 tokens"):
            self.largest(lambda n: n, 4, 5, 20)


class Chance(unittest.TestCase):
    def test_a_seed_gives_the_same_items_and_another_one_others(self):
        for task in OWN_TASKS:
            first, again, other = made(task, 1000), made(task, 1000), made(task, 1000, seed=43)
            self.assertEqual(first, again, task)
            self.assertEqual(first[:2], made(task, 1000, limit=2), task)
            for one, two in zip(first, other):
                self.assertNotEqual(one.prompt, two.prompt, task)
                self.assertNotEqual(one.references, two.references, task)

    def test_items_are_distinct_and_twenty_if_no_limit_is_given(self):
        for task in OWN_TASKS:
            found = made(task, 1000, limit=0)
            self.assertEqual([item.name for item in found], [str(i) for i in range(20)])
            self.assertEqual(len({item.prompt for item in found}), 20, task)
            self.assertEqual(len({item.references for item in found}), 20, task)


class Needles(unittest.TestCase):
    def facts(self, item):
        return re.findall(r"One of the special magic (?:numbers|uuids) for (\S+) is: ([^.\s]+)\.", item.prompt)

    def test_values_belong_to_the_keys_that_are_asked_for(self):
        hidden = {"niah_multikey_1": 4, "niah_multivalue": 4, "niah_multiquery": 4}
        answers = {"niah_multivalue": 4, "niah_multiquery": 4}
        for task in [task for task in OWN_TASKS if task.startswith("niah")]:
            for item in made(task, 2000):
                facts = self.facts(item)
                query = re.search(r"special magic \w+ for (\S+(?:, (?:and )?\S+)*) mentioned", item.prompt)[1]
                keys = re.split(r", (?:and )?", query)
                self.assertEqual([v for key in keys for k, v in facts if k == key], sorted_as(item.references, facts, keys), task)
                self.assertEqual(len(item.references), answers.get(task, 1), task)
                self.assertEqual(len({value for _, value in facts}), len(facts), task)
                if task in ("niah_multikey_2", "niah_multikey_3"):
                    self.assertGreater(len(facts), 40)
                else:
                    self.assertEqual(len(facts), hidden.get(task, 1), task)

    def test_kinds_of_keys_and_values(self):
        for task, key, value in (
            ("niah_single_1", "pair", r"[1-9]\d{6}"),
            ("niah_single_3", "pair", UUID),
            ("niah_multikey_3", UUID, UUID),
        ):
            for k, v in self.facts(made(task, 2000)[0]):
                self.assertRegex(v, f"^{value}$")
                if key == "pair":
                    self.assertTrue(any(k == f"{k[:i]}-{k[i + 1:]}" and k[:i] in words("adjectives") and k[i + 1 :] in words("nouns")
                                        for i in range(len(k))), k)  # fmt: skip
                else:
                    self.assertRegex(k, f"^{key}$")

    def test_published_sentences(self):
        item = made("niah_single_1")[0]
        (key, value), noise = self.facts(item)[0], "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
        head, *lines, question = item.prompt.split("\n")
        self.assertEqual(head, "A special magic number is hidden within the following text. Make sure to memorize it. "
                               "I will quiz you about the number afterwards.")  # fmt: skip
        self.assertEqual(set(lines), {noise, f"One of the special magic numbers for {key} is: {value}."})
        self.assertEqual(question, f"What is the special magic number for {key} mentioned in the provided text?"
                                   f" The special magic number for {key} mentioned in the provided text is")  # fmt: skip
        item = made("niah_multiquery")[0]
        of = dict((v, k) for k, v in self.facts(item))
        a, b, c, d = (of[value] for value in item.references)
        head, *_, question = item.prompt.split("\n")
        self.assertEqual(head, "Some special magic numbers are hidden within the following text. Make sure to memorize it. "
                               "I will quiz you about the numbers afterwards.")  # fmt: skip
        query = f"{a}, {b}, {c}, and {d}"
        self.assertEqual(question, f"What are all the special magic numbers for {query} mentioned in the provided text?"
                                   f" The special magic numbers for {query} mentioned in the provided text are")  # fmt: skip

    def test_needles_stand_between_sentences_at_one_of_forty_depths(self):
        shares = [round(100 * i / 39) / 100 for i in range(40)]
        found = set()
        for item in made("niah_single_2", 8000, limit=0):
            context = item.prompt.split("\n")[1]
            before, after = re.split(r"One of the special magic numbers for \S+ is: \d+\.", context)
            sentences = [len(re.findall(r"[.!?](?= |$)", part)) for part in (before, after)]
            total = sum(sentences) + (not re.search(r"[.!?]$", context))  # the last one may be cut
            self.assertRegex(before, r"(^|[.!?]) ?$")
            self.assertIn(sentences[0], [int(total * share) for share in shares])
            found.add(sentences[0] / total)
        self.assertLess(min(found), 0.2)
        self.assertGreater(max(found), 0.8)


def sorted_as(references, facts, keys):
    """The references in the order of the keys and then of the text, so that they can be compared with the text's."""
    places = {value: (keys.index(key), i) for i, (key, value) in enumerate(facts) if key in keys}
    return sorted(references, key=places.__getitem__)


class Tracking(unittest.TestCase):
    def test_the_variables_are_those_that_following_the_assignments_gives(self):
        for length in LENGTHS:
            for item in made("vt", length):
                example, question = item.prompt.split("\n\n\n\n")
                for text, names in ((example, None), (question, item.references)):
                    value = re.search(r"assigned the value (\d+) in", text)[1]
                    values = {}
                    for name, source in re.findall(r"VAR ([A-Z]+) = (VAR [A-Z]+|\d+)", text):
                        values[name] = values[source[4:]] if source.startswith("VAR") else source  # KeyError: the order is wrong
                    holders = [name for name, held in values.items() if held == value]
                    self.assertEqual(len(holders), 5)
                    if names is None:
                        self.assertEqual({len(name) for name in holders}, {3})
                        self.assertTrue(text.endswith("they are: " + " ".join(holders)))
                    else:
                        self.assertEqual({len(name) for name in holders}, {5})
                        self.assertEqual(holders, list(names))

    def test_published_sentences(self):
        for text in made("vt", 2000)[0].prompt.split("\n\n\n\n"):
            value = re.search(r"= (\d+)", text)[1]
            self.assertTrue(text.startswith("Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n"))
            self.assertIn(f"\nQuestion: Find all variables that are assigned the value {value} in the text above. Answer: According to "
                          "the chain(s) of variable assignment in the text above, 5 variables are assgined the value "
                          f"{value}, they are:", text)  # fmt: skip
            self.assertIn("The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.\n", text)

    def test_the_example_has_at_most_500_tokens_or_a_third_of_the_length(self):
        for length, most in ((1000, 333), (2000, 500), (8000, 500)):
            tokens = count(made("vt", length)[0].prompt.split("\n\n\n\n")[0])
            self.assertIn(tokens, range(most - 26, most + 1))


class Words(unittest.TestCase):
    def lists(self, prompt):
        """The words of each numbered list that stands on a line of its own."""
        return [re.findall(r"\d+\. (.+?)(?= \d+\. |$)", line) for line in prompt.split("\n") if line.startswith("1. ")]

    def test_the_ten_common_words_are_the_most_frequent_ones(self):
        for length, common, other in ((1000, 6, 1), (2000, 6, 1), (8000, 30, 3)):
            for item in made("cwe", length):
                listed = self.lists(item.prompt)[-1]
                counted = Counter(listed).most_common()
                self.assertEqual({word for word, _ in counted[:10]}, set(item.references))
                self.assertEqual({times for _, times in counted[:10]}, {common})
                self.assertEqual({times for _, times in counted[10:]}, {other})
                self.assertIn(f" {len(listed)}. {listed[-1]}\n", item.prompt)

    def test_the_example_is_solved(self):
        for length, common, other, distinct in ((2000, 3, 1, 20), (8000, 10, 3, 40)):
            item = made("cwe", length)[0]
            listed = Counter(self.lists(item.prompt)[0])
            answer = re.search(r"in the list are: (1\. .+)\n", item.prompt)[1]
            self.assertEqual(len(listed), distinct)
            self.assertEqual(sorted(listed.values()), [other] * (distinct - 10) + [common] * 10)
            self.assertEqual(set(re.findall(r"\d+\. (.+?)(?= \d+\. |$)", answer)), {w for w, n in listed.items() if n == common})

    def test_pairs_follow_when_the_words_run_out(self):
        text = WordList(random.Random(1), 2, 1).prompt(9000)
        counted = Counter(self.lists(text)[0])
        self.assertEqual(len(counted), 9000)
        self.assertEqual(sorted(counted.values()), [1] * 8990 + [2] * 10)

    def test_the_three_frequent_words(self):
        for length in LENGTHS:
            for item in made("fwe", length):
                context = item.prompt.split("\n")[0].partition("coded words. ")[2].split()
                counted = Counter(context).most_common()
                self.assertEqual(counted[0][0], "...")
                self.assertEqual([word for word, _ in counted[1:4]], list(item.references))
                self.assertGreater(counted[3][1], counted[4][1])
                self.assertLess(abs(counted[0][1] / counted[1][1] - 4), 0.5)
                self.assertTrue(all(re.fullmatch(r"[a-z]{6}", word) for word, _ in counted[1:]))

    def test_published_sentences(self):
        prompt = made("cwe")[0].prompt
        self.assertEqual(prompt.count("Below is a numbered list of words. In these words, some appear more often than others. "
                                      "Memorize the ones that appear most often.\n1. "), 2)  # fmt: skip
        end = ("\nQuestion: What are the 10 most common words in the above list?"
               " Answer: The top 10 words that appear most often in the list are:")  # fmt: skip
        self.assertEqual(prompt.count(end), 2)
        self.assertTrue(prompt.endswith(end))
        prompt = made("fwe")[0].prompt
        self.assertTrue(prompt.startswith("Read the following coded text and track the frequency of each coded word. Find the three most "
                                          "frequently appeared coded words. "))  # fmt: skip
        self.assertTrue(prompt.endswith("\nQuestion: Do not provide any explanation. Please ignore the dots '....'. What are the three "
                                        "most frequently appeared words in the above coded text? Answer: According to the coded text above, the "
                                        "three most frequently appeared words are:"))  # fmt: skip


def squad_data():
    def paragraph(article, number):
        text = f"Town {article} house {number} stands in street {number * 7 + article} and belongs to owner{article}x{number} for ever."
        asked = {"question": f"Who owns house {number} of town {article}?", "is_impossible": False,
                 "answers": [{"text": f"owner{article}x{number}"}, {"text": f"owner{article}x{number}"}, {"text": "the owner"}]}  # fmt: skip
        return {"context": text, "qas": [asked, {"question": "Unanswerable?", "is_impossible": True, "answers": []}]}

    return {"data": [{"title": str(a), "paragraphs": [paragraph(a, n) for n in range(6)]} for a in range(100)]}


def hotpot_data():
    context = [[f"Title {i}", [f"River {i} is long.", f" It ends in sea{i}."]] for i in range(3000)]
    return [{"question": f"Where does river {i} end?", "answer": f"sea{i}", "context": context[i : i + 3]} for i in range(0, 3000, 3)]


class Questions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.data = Path(folder.name)
        (self.data / "squad.json").write_text(json.dumps(squad_data()))
        (self.data / "hotpotqa.json").write_text(json.dumps(hotpot_data()))

    def documents(self, prompt):
        context = prompt.split("The following are given documents.\n\n")[1].split("\n\nAnswer the question")[0]
        parts = [part.partition(":\n") for part in context.split("\n\n")]
        self.assertEqual([number for number, _, _ in parts], [f"Document {i + 1}" for i in range(len(parts))])
        return [text for _, _, text in parts]

    def test_lengths_answers_and_distinct_documents(self):
        for task in ("qa_1", "qa_2"):
            for length in LENGTHS:
                for item in made(task, length, data=self.data):
                    self.assertIn(length - 32 - count(item.prompt), range(UNIT[task]))
                    documents = self.documents(item.prompt)
                    self.assertEqual(len(set(documents)), len(documents))
                    self.assertTrue(any(item.references[0] + mark in text for text in documents for mark in " ."), item.references)
                    self.assertEqual((item.metric, item.max_tokens), ("part", 32))

    def test_the_own_documents_are_there_and_related_ones_come_first(self):
        for item in made("qa_1", 512, data=self.data):
            town = re.search(r"of town (\d+)\? Answer:$", item.prompt)[1]
            near = [text for text in self.documents(item.prompt) if text.startswith(f"Town {town} ")]
            self.assertEqual(len(near), 6)
            self.assertEqual(item.references[1:], ("the owner",))  # equal answers once
        for item in made("qa_2", 512, data=self.data):
            river = int(re.search(r"river (\d+) end", item.prompt)[1])
            own = [f"Title {i}\nRiver {i} is long. It ends in sea{i}." for i in range(river, river + 3)]
            self.assertLessEqual(set(own), set(self.documents(item.prompt)))

    def test_the_answer_is_not_always_in_the_same_place(self):
        places = {self.documents(i.prompt).index(next(d for d in self.documents(i.prompt) if i.references[0] + " " in d))
                  for i in made("qa_1", 1000, limit=10, data=self.data)}  # fmt: skip
        self.assertGreater(len(places), 3)

    def test_published_sentences(self):
        item = made("qa_1", data=self.data)[0]
        instruction = "Answer the question based on the given documents. Only give me the answer and do not output any other words.\n\n"
        self.assertTrue(item.prompt.startswith(instruction + "The following are given documents.\n\nDocument 1:\nTown "))
        self.assertRegex(item.prompt, re.escape(instruction) + r"Question: Who owns house \d of town \d+\? Answer:$")

    def test_the_same_questions_at_all_lengths_and_others_with_another_seed(self):
        for task in ("qa_1", "qa_2"):
            asked = [[i.references for i in made(task, n, data=self.data, seed=s)] for n, s in ((512, 42), (2000, 42), (512, 43))]
            self.assertEqual(asked[0], asked[1])
            self.assertNotEqual(asked[0], asked[2])
            self.assertEqual(made(task, data=self.data), made(task, data=self.data))

    def test_all_documents_if_they_are_too_few(self):
        (item,) = made("qa_1", 100_000, limit=1, data=self.data)
        self.assertEqual(len(self.documents(item.prompt)), 600)

    def test_too_short(self):
        with self.assertRaisesRegex(ValueError, "^qa_2: length 90 found, expected at least "):
            made("qa_2", 90, data=self.data)

    def test_missing_data(self):
        (self.data / "squad.json").unlink()
        for data in (None, self.data):
            with self.assertRaisesRegex(MissingData, r"^qa_1: .*squad\.json not found; it is SQuAD 2\.0's dev-v2\.0\.json; put it there"):
                ruler.items(Request(512, count, data=data, tasks=("qa_1",)))
        request = Request(1000, count, data=self.data, limit=1)
        self.assertEqual([item.task for item in ruler.items(request)], [task for task in ruler.TASKS if task != "qa_1"])
        self.assertIn("skipped: qa_1 (no squad.json)", ruler.describe(request))
        self.assertNotIn("qa_2", ruler.describe(request))


class Essays(unittest.TestCase):
    def test_a_text_begins_again_when_it_ends(self):
        text = Essay("One two. Three four five! Six.", "x")
        self.assertEqual(text.units(8), ["One", "two.", "Three", "four", "five!", "Six.", "One", "two."])
        self.assertEqual(text.sentences(8), [2, 5, 6, 8])
        self.assertEqual(text.sentences(7), [2, 5, 6, 7])
        self.assertEqual(text.units(9, 5), ["Six.", "One", "two.", "Three", "four", "five!", "Six.", "One", "two."])
        self.assertEqual(text.sentences(9, 5), [1, 3, 6, 7, 9])
        self.assertEqual(text.places(8, [0, 0.24, 0.25, 0.5, 1]), [0, 0, 2, 5, 8])

    def test_essays_of_the_user_are_taken(self):
        with tempfile.TemporaryDirectory() as folder:
            essays = Path(folder) / "essays"
            essays.mkdir()
            request = Request(600, count, data=Path(folder), tasks=("niah_single_2",), limit=1)
            with self.assertRaisesRegex(MissingData, "no text found"):
                list(ruler.items(request))
            (essays / "b.txt").write_text("Zeta eta\n\n theta.")
            (essays / "a.txt").write_text("Alpha beta. ")
            self.assertIn("2 text files of ", ruler.describe(request))
            (item,) = ruler.items(request)
            self.assertIn("Alpha beta. Zeta eta theta. Alpha beta.", item.prompt)

    def test_the_packaged_text_is_named(self):
        self.assertIn("King James Bible (public domain)", ruler.describe(Request(512, count)))
        self.assertIn("The book of the generation of Jesus Christ", made("niah_single_2", limit=1)[0].prompt)


class Tasks(unittest.TestCase):
    def test_names(self):
        self.assertEqual(set(ruler.TASKS), {"niah_single_1", "niah_single_2", "niah_single_3", "niah_multikey_1", "niah_multikey_2",
                                            "niah_multikey_3", "niah_multivalue", "niah_multiquery", "vt", "cwe", "fwe", "qa_1",
                                            "qa_2"})  # fmt: skip
        with self.assertRaisesRegex(ValueError, "task ruler_vt found, expected one of niah_single_1"):
            ruler.items(Request(512, count, tasks=("ruler_vt",)))


class Metrics(unittest.TestCase):
    def test_all(self):
        self.assertEqual(match_all("  The values are 12, 34 and 99.", ("12", "34", "56", "78")), 0.5)
        self.assertEqual(match_all("ABC DEF", ("abc", "Def")), 1.0)
        self.assertEqual(match_all("", ("x",)), 0.0)
        self.assertEqual(match_all("1234567", ("234",)), 1.0)  # within a longer number, as RULER has it

    def test_part(self):
        self.assertEqual(match_part("In Paris, of course", ("Lyon", "paris")), 1.0)
        self.assertEqual(match_part("In Rome", ("Lyon", "Paris")), 0.0)

    def test_control_characters_become_line_ends(self):
        self.assertEqual(match_all("new\tyork", ("new york",)), 0.0)
        self.assertEqual(match_all("new\tyork", ("new\nyork",)), 1.0)
        self.assertEqual(match_all("\x00 yes", ("\nyes",)), 0.0)  # stripped once they are line ends
        self.assertEqual(match_part("a\x1fb", ("a\nb",)), 1.0)


if __name__ == "__main__":
    unittest.main()
