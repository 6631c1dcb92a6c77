"""Metrics of LongBench v1, as its metrics.py and eval.py define them, for one prediction.

Each is a function (text, references, extra) with a score from 0 to 1: the largest over the references. If
extra["first_line"] is true, only the prediction's first line counts (trec, triviaqa, samsum, lsht)."""

import difflib
import functools
import re
import string
from collections import Counter

from trireme_evaluate.items import MissingData
from trireme_evaluate.metrics.rouge import rouge

CHINESE_PUNCTUATION = "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏."


def largest(score):
    """Makes a metric of a function of a prediction, one reference, and `extra`."""

    @functools.wraps(score)
    def metric(text, references, extra):
        if extra.get("first_line"):
            text = text.lstrip("\n").split("\n")[0]
        return max((float(score(text, reference, extra)) for reference in references), default=0.0)

    return metric


def segmented(text):
    """Words of a Chinese text."""
    try:
        import jieba
    except ImportError:
        raise MissingData("Chinese texts are split into words by the package jieba, which is not installed: pip install jieba") from None
    return list(jieba.cut(text, cut_all=False))


def normalised(text):
    """In lower case, without punctuation and articles, with single spaces."""
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def normalised_zh(text):
    """In lower case, without punctuation and white space."""
    return "".join("".join(c for c in text.lower() if c not in string.punctuation + CHINESE_PUNCTUATION).split())


def f1(tokens, expected):
    common = sum((Counter(tokens) & Counter(expected)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(tokens), common / len(expected)
    return 2 * precision * recall / (precision + recall)


@largest
def qa_f1(text, reference, extra):
    return f1(normalised(text).split(), normalised(reference).split())


@largest
def qa_f1_zh(text, reference, extra):
    tokens, expected = ([word for word in map(normalised_zh, segmented(of)) if word] for of in (text, reference))
    return f1(tokens, expected)


@largest
def rouge_l(text, reference, extra):
    return rouge(text, reference)["rouge-l"]["f"]


@largest
def rouge_l_zh(text, reference, extra):
    return rouge(" ".join(segmented(text)), " ".join(segmented(reference)))["rouge-l"]["f"]


@largest
def classification(text, reference, extra):
    found = [name for name in extra["all_classes"] if name in text]
    # The published score removes items from the list that it iterates over. So the item after a removed one is skipped, and
    # remains even if it also is a part of the reference. An iteration over a copy would give other scores.
    for name in found:
        if name in reference and name != reference:
            found.remove(name)
    return 1.0 / len(found) if reference in found else 0.0


def share_of_numbers(text, number):
    """The share of the text's numbers that are equal to one, digit for digit."""
    numbers = re.findall(r"\d+", text)
    return numbers.count(number) / len(numbers) if numbers else 0.0


def number_after(word, reference):
    found = re.search(re.escape(word) + r"(\d+)", reference)
    if not found:
        raise ValueError(f"found the reference '{reference}', expected '{word}' and a number")
    return found.group(1)


@largest
def retrieval(text, reference, extra):
    return share_of_numbers(text, number_after("Paragraph ", reference))


@largest
def retrieval_zh(text, reference, extra):
    return share_of_numbers(text, number_after("段落", reference))


@largest
def count(text, reference, extra):
    return share_of_numbers(text, reference)


@largest
def code_sim(text, reference, extra):
    """fuzzywuzzy's ratio in whole per cent, with its difflib back end. Its Levenshtein back end gives other ratios."""
    lines = text.lstrip("\n").split("\n")
    line = next((line for line in lines if not ("`" in line or "#" in line or "//" in line)), "")
    if not line or not reference:
        return float(line == reference)
    return int(round(100 * difflib.SequenceMatcher(None, line, reference).ratio())) / 100
