"""Three local tasks of lm-evaluation-harness, made from the King James Bible: which half verse follows (loglikelihood), the
perplexity of passages (loglikelihood_rolling), and how a verse continues (generate_until)."""

import json
import random
import re
from pathlib import Path

TEXT = Path(__file__).resolve().parents[1] / "data/texts/kjv_60k.txt"
COMMON = "dataset_path: json\ntest_split: test\nmetadata:\n  version: 1\n"


def verses():
    """Verses of at least 12 words."""
    return [verse for verse in re.split(r"(?<=[.!?])\s+", TEXT.read_text(encoding="utf-8")) if len(verse.split()) >= 12]


def halves(verse):
    words = verse.split()
    return " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])


def write(folder, items):
    """Writes tasks of `items` items, with their data. Returns the tasks' names."""
    folder, rng, all_verses = Path(folder), random.Random(7), verses()
    chosen = rng.sample(range(1, len(all_verses)), items)
    choices, passages, continued = [], [], []
    for number in chosen:
        begin, end = halves(all_verses[number])
        wrong = [halves(all_verses[other])[1] for other in rng.sample(range(len(all_verses)), 3)]
        gold = rng.randrange(4)
        choices.append({"query": begin, "choices": wrong[:gold] + [end] + wrong[gold:], "gold": gold})
        continued.append({"context": all_verses[number - 1] + " " + begin, "answer": end.split()[0]})
    for number in chosen[: max(1, items // 4)]:
        passages.append({"page": " ".join(all_verses[number : number + 12])})
    tasks = {
        "kjv_choice": (choices, "output_type: multiple_choice\ndoc_to_text: '{{query}}'\ndoc_to_target: gold\ndoc_to_choice: choices\n"
                       "metric_list:\n  - metric: acc\n  - metric: acc_norm\n"),
        "kjv_perplexity": (passages, "output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: '{{page}}'\n"
                           "metric_list:\n  - metric: word_perplexity\n  - metric: byte_perplexity\n  - metric: bits_per_byte\n"),
        "kjv_continue": (continued, "output_type: generate_until\ndoc_to_text: '{{context}}'\ndoc_to_target: '{{answer}}'\n"
                         "generation_kwargs:\n  until: ['.']\n  max_gen_toks: 16\n  do_sample: false\n"
                         "filter_list:\n  - name: first-word\n    filter:\n      - function: regex\n        regex_pattern: '^\\s*(\\S+)'\n"
                         "      - function: take_first\nmetric_list:\n  - metric: exact_match\n    ignore_punctuation: true\n    ignore_case: true\n"),
    }  # fmt: skip
    for name, (rows, settings) in tasks.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        files = f"dataset_kwargs:\n  data_files:\n    test: {folder / name}.jsonl\n"
        (folder / f"{name}.yaml").write_text(f"task: {name}\n{COMMON}{files}{settings}")
    return list(tasks)
