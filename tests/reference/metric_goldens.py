"""Scores by the published implementations of metrics: tests/data/evaluate/metrics.json.

  metric_goldens.py LM_EVAL/tasks/longbench/metrics.py

ROUGE is that of the package `rouge`. LongBench's metrics are those of lm-evaluation-harness, which took them from
LongBench. They are called without its wrappers, which remove white space from predictions as LongBench does not.
Its code_sim_score skips blank lines, LongBench's does not: no example here has a blank line that matters.

jieba is replaced by a split into characters, so that the goldens do not depend on its dictionary."""

import difflib
import importlib.metadata
import importlib.util
import json
import pathlib
import random
import sys
import types

OUT = pathlib.Path(__file__).resolve().parent.parent / "data/evaluate/metrics.json"
FOX = "The quick brown fox jumps over the lazy dog."
REPORT = (
    "The agency spent 4.2 million dollars in 2019. It reported no savings. The auditors found three weaknesses: staff, "
    "records, and travel. They recommended a review of all contracts.\n\nThe agency agreed with the recommendations."
)
SUMMARY = (
    "Auditors found weaknesses in staff, records, and travel. The agency agreed with a review of all contracts. It spent "
    "4.2 million dollars in 2019."
)


def random_text(seed, words, sentence):
    """Words of a small vocabulary, with a "." after each `sentence` of them."""
    generator = random.Random(seed)
    parts = [generator.choice("river stone bread wind light house salt name".split()) for _ in range(words)]
    for at in range(sentence - 1, words, sentence):
        parts[at] += "."
    return " ".join(parts)


ROUGE = [
    ("", FOX), (FOX, ""), ("", ""), (".", FOX), ("...", "..."), (FOX, "."), (" ", FOX), ("\n\n", "\n"), (". .", ". . ."),
    ("fox", "fox"), ("fox", "dog"), ("Fox", "fox"), ("fox.", "fox"), ("fox. ", "fox"), ("fox,", "fox"), ("fox", "fox fox fox"),
    (FOX, FOX), (FOX, "A quick fox jumped over a lazy dog."), ("dog lazy the over jumps fox brown quick The", FOX),
    ("a b c d e f g", "g f e d c b a"), ("a b a b a b", "b a b a"), ("w1 w2 w6 w7 w8. w1 w3 w8 w9 w5", "w1 w2 w3 w4 w5"),
    ("It rained. It rained. It rained.", "It rained."), ("It rained.", "It rained. It rained. It rained. The sun shone."),
    ("a b c. d e f", "d e f. a b c"), ("a  b\tc\nd", "a b c d"), ("a b", "b a"), ("a b c", "b c a"),
    ("a c a", "a a c"), ("c b c c", "c a c b"), ("c a b c a", "a b a a c"), ("a c c a b b", "b b b a a c"),
    ("naïve café, déjà vu", "naive café, deja vu"), ("今天 天气 很 好", "天气 今天 好"), ("今天天气很好。", "今天天气不好。"), ("🙂 🙂 ok", "ok 🙂"),
    ("word\u00a0with\u2003spaces and\u200bnone", "word with spaces and none"), ("Ф. М. Достоевский", "Ф.М. Достоевский"),
    ("def f(x):\n    return x.y + 1.5", "def f(x):\n    return x.y + 2.5"), ("for (int i = 0; i < n; ++i)", "for (int j = 0; j < n; ++j)"),
    ("e.g. this, i.e. that etc.", "e.g. that, i.e. this etc."), ("\"Quoted,\" she said -- and left!", "'Quoted' she said, and left"),
    ("3.14159 2.71828", "3.14 2.71828"), (SUMMARY, REPORT), (REPORT, SUMMARY), (f"{SUMMARY} {SUMMARY}", REPORT),
    (random_text(1, 60, 7), random_text(2, 90, 11)), (random_text(3, 200, 25), random_text(4, 150, 9)),
    (random_text(5, 700, 1000), random_text(6, 700, 1000)),
]  # fmt: skip
QA = [
    ("", ["Paris"]), ("Paris", ["Paris"]), ("paris.", ["Paris"]), ("The city of Paris", ["Paris", "city of Paris, France"]),
    ("the the the", ["a"]), ("an apple a day", ["apple day"]), ("no", ["yes"]), ("yes, yes, no", ["yes yes"]), ("U.S.A.", ["USA", "U. S. A."]),
    ("theatre", ["the atre"]), ("1,000 people", ["1000 people"]), ("café “Paris”", ["cafe Paris"]), ("  two \n words ", ["two words"]),
    ("one two three four", ["four three", "one five six", "seven"]), ("it's", ["its"]),
]  # fmt: skip
QA_ZH = [("", ["北京"]), ("北京。", ["北京"]), ("在北京市", ["北京", "北京市"]), ("上海", ["北京"]), ("“Ａ Ｂ”，ab！", ["AB"]), ("三 个 人", ["三个人"])]
CLASSES = ["Food", "Food other", "Food other kind", "other", "Person", "kind"]
CLASSIFICATION = [
    ("Food", ["Food"], CLASSES), ("Food other", ["Food other"], CLASSES), ("Food other kind", ["Food other kind"], CLASSES),
    ("Food other kind", ["Food"], CLASSES), ("Person and Food", ["Food"], CLASSES), ("Person and Food", ["Food", "Person"], CLASSES),
    ("nothing", ["Food"], CLASSES), ("", ["Food"], CLASSES), ("food", ["Food"], CLASSES), ("Food other", ["kind"], CLASSES),
    ("a b ab", ["ab"], ["a", "b", "ab"]), ("a b c abc", ["abc"], ["a", "b", "c", "abc"]), ("ab", ["ab"], ["ab", "a", "b"]),
    ("Person Food other kind", ["Food other kind"], CLASSES),
]  # fmt: skip
RETRIEVAL = [
    ("Paragraph 7", ["Paragraph 7"]), ("7", ["Paragraph 7"]), ("17", ["Paragraph 7"]), ("Paragraph 7 or 8", ["Paragraph 7"]),
    ("none", ["Paragraph 7"]), ("", ["Paragraph 7"]), ("7 7 07", ["Paragraph 7"]), ("2", ["Paragraph 1", "Paragraph 2 3"]), ("v7x7", ["Paragraph 7"]),
]  # fmt: skip
RETRIEVAL_ZH = [("段落7", ["段落7"]), ("第7段，第8段，第9段", ["段落7"]), ("七", ["段落7"]), ("段落 7", ["段落1", "段落7"])]
COUNT = [("17", ["17"]), ("There are 17 of 30", ["17"]), ("about 1,700", ["17"]), ("", ["17"]), ("seventeen", ["17"]), ("017", ["17"]), ("3 4 3", ["3", "4"])]
CODE = [
    ("return x", ["return x"]), ("return x + 1", ["return x"]), ("    return x", ["return x"]), ("# first\nreturn x\nreturn y", ["return y", "return x"]),
    ("```python\nfoo(a, b)\n```", ["foo(a, c)"]), ("// no\n`no`\n# no", ["x"]), ("// no", ["// no"]), ("abcd", ["bcda"]), ("int i = 0; // zero\nint j = 0;", ["int k = 0;"]),
    ("\n\nvalue = compute(values)", ["value = compute(value)"]), ("qwerty", ["asdfgh"]), ("a" * 250 + "b", ["b" + "a" * 250]), ("é = 1", ["e = 1"]),
    ("x" * 7, ["x"]), ("abc", ["abcd" * 3]),
]  # fmt: skip


def load(path):
    """The metrics of LongBench. fuzzywuzzy must use difflib: its other back end has other ratios."""
    sys.modules["jieba"] = types.SimpleNamespace(cut=lambda text, cut_all: list(text))
    spec = importlib.util.spec_from_file_location("longbench_metrics", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if module.fuzz.SequenceMatcher is not difflib.SequenceMatcher:
        sys.exit("metric_goldens.py: found python-Levenshtein, expected an environment without it")
    return module


def rouge_golden(package, text, reference):
    try:
        scores = package.get_scores([text], [reference])[0]
    except ValueError:  # an empty text
        scores = {name: {"r": 0.0, "p": 0.0, "f": 0.0} for name in ("rouge-1", "rouge-2", "rouge-l")}
    return {"text": text, "reference": reference, "scores": scores}


def golden(score, text, references, all_classes=()):
    """The largest score over the references, as LongBench's eval.py computes it."""
    largest = max([0.0] + [score(text, reference, all_classes=all_classes) for reference in references])
    given = {"text": text, "references": references, "score": largest}
    return {**given, "all_classes": all_classes} if all_classes else given


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    path = pathlib.Path(sys.argv[1]).resolve()
    metrics = load(path)
    sys.setrecursionlimit(10000)  # the package's ROUGE-L of long sentences
    (lm_eval,) = importlib.metadata.distributions(name="lm_eval", path=[str(path.parents[3])])
    versions = {name: importlib.metadata.version(name) for name in ("rouge", "fuzzywuzzy")}
    of = {
        "qa_f1": (metrics.qa_f1_score, QA),
        "qa_f1_zh": (metrics.qa_f1_zh_score, QA_ZH),
        "rouge_l": (metrics.rouge_score, [(text, [reference]) for text, reference in ROUGE[:20]] + [(FOX, [SUMMARY, FOX, REPORT])]),
        "rouge_l_zh": (lambda text, reference, **_: metrics.rouge_zh_score(text, reference), QA_ZH),
        "classification": (metrics.classification_score, CLASSIFICATION),
        "retrieval": (metrics.retrieval_score, RETRIEVAL),
        "retrieval_zh": (metrics.retrieval_zh_score, RETRIEVAL_ZH),
        "count": (metrics.count_score, COUNT),
        "code_sim": (metrics.code_sim_score, CODE),
    }
    made = {
        "versions": {**versions, "lm_eval": lm_eval.version},
        "rouge": [rouge_golden(metrics.Rouge(), *pair) for pair in ROUGE],
        **{name: [golden(score, *example) for example in examples] for name, (score, examples) in of.items()},
    }
    rows = [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=True)}" for name, value in made.items()]
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
