"""Metrics: the score of an answer from 0 to 1, by name."""

from . import answers
from .rouge import rouge
from .strings import match_all, match_part

METRICS = {
    "all": lambda text, references, extra: match_all(text, references),
    "part": lambda text, references, extra: match_part(text, references),
    **{name: getattr(answers, name) for name in ("qa_f1", "qa_f1_zh", "rouge_l", "rouge_l_zh", "classification", "retrieval",
                                                "retrieval_zh", "count", "code_sim")},
}  # fmt: skip


def scores_of(item, text):
    """The scores of an item's answer by name; the first one is the item's metric."""
    if item.metric == "rouge-2":
        made = [rouge(text, reference) for reference in item.references]
        return {name: max(one[name]["f"] for one in made) for name in ("rouge-2", "rouge-1", "rouge-l")}
    return {item.metric: METRICS[item.metric](text, item.references, item.extra)}
