#!/usr/bin/env python3
"""`trireme evaluate`, and the Python class Trireme, with the small model.

  program_test.py TRIREME"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "launch/python"))

from trireme_evaluate import table  # noqa: E402
from trireme_lm import Trireme, TriremeError  # noqa: E402

PROGRAM = sys.argv.pop(1)
MODEL = ROOT / "tests/data/models/kjv-target"
TEXT = (ROOT / "tests/data/texts/kjv_12k.txt").read_text()


class Evaluate(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = Path(self.folder.name, "out")
        self.xsum = Path(self.folder.name, "xsum.jsonl")
        lines = [{"article": f"###\nArticle: {TEXT[i * 400 : i * 400 + 500]}\n\nSummarize the above article in 1 sentence.\n",
                  "summary_gt": TEXT[i * 400 : i * 400 + 60], "max_tokens": 12, "temperature": 0.3, "stop": ["###"]}
                 for i in range(6)]  # fmt: skip
        self.xsum.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def command(self, *words):
        return [PROGRAM, "evaluate", "-m", str(MODEL), "-t", "1", "-o", str(self.out), *words]

    def run_it(self, *words, status=0):
        done = subprocess.run(self.command(*words), capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def answers(self):
        return {path.name: path.read_bytes() for path in (self.out / "answers").iterdir()}

    def test_scores_of_modes(self):
        done = self.run_it("--suite", "needle,xsum", "--data", str(self.xsum), "--lengths", "300,400", "--limit", "3", "--tasks",
                           "needle,xsum", "--modes", "full,h2o@64,ngram")  # fmt: skip
        heading, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()]
        self.assertEqual(heading, ["suite", "task", "length", "metric", "items", "full", "h2o@64", "ngram"])
        self.assertEqual([row[:5] for row in rows], [["needle", "needle", "300", "all", "3"], ["needle", "needle", "400", "all", "3"],
                                                     ["xsum", "xsum", "-", "rouge-2", "3"], ["xsum", "xsum", "-", "rouge-1", "3"],
                                                     ["xsum", "xsum", "-", "rouge-l", "3"]])  # fmt: skip
        # Speculation is exact: the answers are those of plain decoding.
        texts = {name: [json.loads(line)["text"] for line in content.splitlines()[1:]] for name, content in self.answers().items()}
        self.assertEqual(texts["needle-400-full.jsonl"], texts["needle-400-ngram.jsonl"])
        self.assertNotEqual(texts["needle-400-full.jsonl"], texts["needle-400-h2o@64.jsonl"])
        rows = (self.out / "results.csv").read_text().splitlines()
        self.assertEqual(len(rows), 1 + 3 * 5)
        self.assertEqual(rows[0], "suite,task,length,mode,metric,items,score")

    def test_perplexity_is_that_of_score(self):
        books = Path(self.folder.name, "books")
        books.mkdir()
        (books / "one.txt").write_text(TEXT[:3000])
        self.run_it("--suite", "pg19", "--data", str(books), "--lengths", "128", "--modes", "full")
        line = json.loads(self.answers()["pg19-128-full.jsonl"].splitlines()[1])
        score = subprocess.run([PROGRAM, "score", "-m", str(MODEL), "-f", str(books / "one.txt"), "--window", "128", "--stride", "64",
                                "-t", "1"], capture_output=True, text=True, check=True)  # fmt: skip
        self.assertAlmostEqual(line["scores"]["perplexity"], json.loads(score.stdout)["perplexity"], places=9)

    def test_turns_of_one_conversation(self):
        questions = Path(self.folder.name, "question.jsonl")
        questions.write_text('{"turns": ["In the beginning", "And the earth"]}\n{"turns": ["And God said"]}\n')
        self.run_it("--suite", "mtbench", "--data", str(questions), "--modes", "h2o@64", "--kv-positions", "rolling")
        lines = [json.loads(line) for line in self.answers()["mtbench-whole-h2o@64.jsonl"].splitlines()[1:]]
        self.assertEqual([line["name"] for line in lines], ["1.1", "1.2", "2.1"])
        self.assertTrue(all(0 < line["scores"]["distinct-4"] <= 1 for line in lines))

    def test_a_stopped_evaluation_continues(self):
        words = ("--suite", "needle", "--tasks", "needle", "--lengths", "400", "--modes", "full,h2o@64", "--limit", "8")
        self.run_it(*words)
        whole = self.answers()
        without_times = lambda of: {name: [{k: v for k, v in json.loads(line).items() if k != "seconds"}
                                           for line in content.splitlines()] for name, content in of.items()}  # noqa: E731  # fmt: skip
        for path in self.out.rglob("*.jsonl"):
            path.unlink()
        running = subprocess.Popen(self.command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        first = self.out / "answers/needle-400-full.jsonl"
        while not (first.exists() and first.read_bytes().count(b"\n") >= 4):
            time.sleep(0.02)
        running.send_signal(signal.SIGKILL)
        running.wait()
        with open(first, "ab") as file:
            file.write(b'{"task": "needle", "na')  # as a killed run may leave it
        before = first.read_bytes().splitlines()[:4]
        done = self.run_it(*words)
        self.assertRegex(done.stderr, "8 items, [3-8] done before")
        self.assertEqual(first.read_bytes().splitlines()[:4], before)
        self.assertEqual(without_times(self.answers()), without_times(whole))
        refused = self.run_it(*words, "--kv-window", "32", status=65)
        self.assertIn("needle-400-full.jsonl: its answers were made with other settings (--kv-window)", refused.stderr)
        self.assertIn("0 done before", self.run_it(*words, "--kv-window", "32", "--force").stderr)

    def test_shards_are_the_whole(self):
        words = ("--suite", "needle", "--tasks", "needle", "--lengths", "300,400", "--modes", "full,h2o@64", "--limit", "2")
        made = set()
        for shard in range(3):
            self.assertEqual(self.run_it(*words, "--shard", f"{shard}/3").stdout, "")
            now = set(self.answers())
            self.assertTrue(now > made)
            made = now
        self.assertEqual(len(made), 4)
        done = self.run_it(*words)
        self.assertNotIn("0 done before", done.stderr)
        self.assertIn("h2o@64", done.stdout)

    def test_says_what_is_missing(self):
        one_line = lambda done: [line for line in done.stderr.splitlines() if "error: " in line]  # noqa: E731
        cases = [(("--suite", "longbench"), 66, "data.zip of THUDM/LongBench"), (("--suite", "needle"), 65, "give --lengths"),
                 (("--suite", "ruler", "--lengths", "1K", "--tasks", "vtt"), 65, "--tasks vtt"),
                 (("--suite", "ruler", "--lengths", "1K", "--tasks", "qa_1"), 66, "squad.json"),
                 (("--suite", "ruler", "--lengths", "100"), 65, "length 100 found"), (("--suite", "rulr"), 78, "--suite 'rulr'"),
                 ((), 64, "no suite")]  # fmt: skip
        for words, status, part in cases:
            with self.subTest(words=words):
                done = self.run_it(*words, status=status)
                self.assertEqual(len(one_line(done)), 1, done.stderr)
                self.assertIn(part, one_line(done)[0])


class Reports(unittest.TestCase):
    def test_compares_evaluations(self):
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for name, score in (("one", 0.25), ("two", 0.75)):
                files.append(Path(folder, name, "results.csv"))
                files[-1].parent.mkdir()
                results = [table.Result("ruler", "vt", length, mode, "all", 4, score) for length in (512, 1024)
                           for mode in ("full", "h2o@64", "h2o@128")]  # fmt: skip
                files[-1].write_text(table.as_csv(results))
            report = lambda *words: subprocess.run([PROGRAM, "report", "-o", str(Path(folder, "pages")), *map(str, words)],
                                                   capture_output=True, text=True)  # noqa: E731  # fmt: skip
            done = report(*files)
            if done.returncode == 69:
                self.skipTest("no Python with h5py and matplotlib")
            self.assertEqual(done.returncode, 0, done.stderr)
            page = Path(folder, "pages/index.md").read_text()
            self.assertIn("| suite | task | length | metric | items | full (one) | h2o@64 (one) | h2o@128 (one) | full (two) | h2o@64 (two) | h2o@128 (two) |", page)
            self.assertIn("| ruler | vt | 512 | all | 4 | 25.0 | 25.0 | 25.0 | 75.0 | 75.0 | 75.0 |", page)
            self.assertTrue(Path(folder, "pages/ruler-budget.png").exists())
            files[0].write_text("a,b\n")
            refused = report(*files)
            self.assertEqual(refused.returncode, 65)
            self.assertIn("found the columns a,b", refused.stderr)
            self.assertEqual(report(files[1], "x.h5").returncode, 66)


class Tables(unittest.TestCase):
    def test_means(self):
        answers = [{"task": "a", "name": "1", "scores": {"all": 1.0}}, {"task": "a", "name": "2", "scores": {"all": 0.5}},
                   {"task": "b", "name": "1", "scores": {"all": 0.0}}]  # fmt: skip
        results = table.of_cell("ruler", 512, "full", answers)
        self.assertEqual([(r.task, r.items, r.score) for r in results], [("a", 2, 0.75), ("b", 1, 0.0), ("mean", 3, 0.375)])
        self.assertIn("| 37.5 |", table.markdown(results))
        self.assertIn("ruler,mean,512,full,all,3,0.375000", table.as_csv(results))


class Model(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = Trireme(MODEL, "-t 1 --temp 0 --parallel 2", program=PROGRAM)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    def test_generates(self):
        (answer,) = self.model.complete(["And God said, Let there be"], max_tokens=12)
        parts = list(self.model.generate("And God said, Let there be", max_tokens=12))
        self.assertGreater(len(parts), 6)
        self.assertEqual("".join(parts), answer["text"])
        ids = self.model.tokenize("And God said, Let there be")
        self.assertEqual("".join(self.model.generate(ids, max_tokens=12)), answer["text"])
        many = self.model.complete([TEXT[i : i + 50] for i in range(300)], max_tokens=2)  # more than pipes hold
        self.assertEqual([a["completion_tokens"] for a in many], [2] * 300)

    def test_scores(self):
        one, other = self.model.score([("In the beginning God created", " the heaven"), ("In the beginning God created", " man")])
        self.assertLess(one.logprob, 0)
        self.assertEqual(self.model.score([("In the beginning God created", " man")]), [other])
        ((logprob, tokens),) = self.model.score_texts([TEXT[:200]])
        self.assertEqual(tokens, len(self.model.tokenize(TEXT[:200])))
        self.assertLess(logprob, 0)

    def test_errors_end_no_process(self):
        with self.assertRaisesRegex(TriremeError, "has no chat template"):
            list(self.model.chat().ask("hello"))
        with self.assertRaisesRegex(TriremeError, "no tokens"):
            self.model.score([("x", "")])
        self.assertEqual(self.model.bos, "<s>")
        self.assertEqual(len(self.model.complete(["And"], max_tokens=1)), 1)

    def test_drops_answers_that_are_not_read(self):
        for _ in self.model.generate("And God said", max_tokens=8):
            break
        (score,) = self.model.score([("In the beginning God created", " man")])
        self.assertEqual(score.tokens, 1)
        with self.assertRaises(TriremeError):
            self.model.complete([[], "And God said"], max_tokens=2)
        (answer,) = self.model.complete(["In the beginning"], max_tokens=2)
        self.assertEqual(answer["prompt_tokens"], len(self.model.tokenize("In the beginning")))
        first, second = self.model.generate("And", max_tokens=8), self.model.generate("And", max_tokens=8)
        next(first), next(second)
        with self.assertRaisesRegex(TriremeError, "another request"):
            list(first)

    def test_closes_with_answers_left(self):
        model = Trireme(MODEL, "-t 1", program=PROGRAM)
        with self.assertRaises(TriremeError):
            model.complete([[], *(["And God said"] * 3000)], max_tokens=20)
        begin = time.monotonic()
        model.close()
        self.assertLess(time.monotonic() - begin, 60)

    def test_takes_any_string(self):
        (answer,) = self.model._process.answers([{"tokenize": "\ud83d"}])
        self.assertIn("error", answer)

    def test_says_why_a_process_ended(self):
        with self.assertRaisesRegex(TriremeError, "no such program"):
            Trireme(MODEL, program="/no/program")
        with self.assertRaisesRegex(TriremeError, "/no/model"):
            Trireme("/no/model", program=PROGRAM)
        with self.assertRaisesRegex(TriremeError, "not found"):
            os.environ["PATH"], path = "", os.environ["PATH"]
            try:
                Trireme("x")
            finally:
                os.environ["PATH"] = path


unittest.main()
