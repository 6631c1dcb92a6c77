"""ROUGE-1, ROUGE-2 and ROUGE-L with the numbers of the package `rouge` 1.0.1 (pltrdy), to the last digit.

A text's sentences end at each "."; its words are separated by white space, and keep their case and punctuation. Each
distinct n-gram counts once. ROUGE-L counts the distinct words of all longest common subsequences of two sentences.

The package raises an exception in two cases that have a score here. An empty text scores 0. A pair of very long sentences
exceeds Python's recursion limit there, which LongBench's script counts as 0; here it scores as any other pair does."""


def sentences(text):
    """A sentence of nothing but spaces stays: the package counts its empty word."""
    return [" ".join(part.split()) for part in text.split(".") if part]


def words(of):
    return [word for sentence in of for word in sentence.split(" ")]


def ngrams(n, of):
    return {tuple(of[at : at + n]) for at in range(len(of) - n + 1)}


def scores(common, hypothesis, reference):
    """Recall, precision and F of counts, in the package's order of operations."""
    precision = common / hypothesis if hypothesis else 0.0
    recall = common / reference if reference else 0.0
    return {"r": recall, "p": precision, "f": 2.0 * ((precision * recall) / (precision + recall + 1e-8))}


def rouge_n(n, hypothesis, reference):
    of_hypothesis, of_reference = ngrams(n, words(hypothesis)), ngrams(n, words(reference))
    return scores(len(of_hypothesis & of_reference), len(of_hypothesis), len(of_reference))


def common_lengths(x, y):
    """Row i, column j: the length of the longest common subsequence of the first i words of x and the first j of y."""
    table = [[0] * (len(y) + 1)]
    for word in x:
        above, row = table[-1], [0]
        for j, other in enumerate(y):
            row.append(above[j] + 1 if word == other else max(above[j + 1], row[j]))
        table.append(row)
    return table


def common_words(x, y):
    """The distinct words of one longest common subsequence. There may be several: this is the package's choice."""
    table, found = common_lengths(x, y), set()
    i, j = len(x), len(y)
    while i and j:
        if x[i - 1] == y[j - 1]:
            found.add(x[i - 1])
            i, j = i - 1, j - 1
        elif table[i - 1][j] > table[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return found


def rouge_l(hypothesis, reference):
    union = set()
    for expected in reference:
        for sentence in hypothesis:
            union |= common_words(expected.split(" "), sentence.split(" "))
    return scores(len(union), len(set(words(hypothesis))), len(set(words(reference))))


def rouge(text, reference):
    """Scores of a text: r, p and f, by the name of the metric."""
    hypothesis, expected = sentences(text), sentences(reference)
    if not hypothesis or not expected:
        return {name: {"r": 0.0, "p": 0.0, "f": 0.0} for name in ("rouge-1", "rouge-2", "rouge-l")}
    return {
        "rouge-1": rouge_n(1, hypothesis, expected),
        "rouge-2": rouge_n(2, hypothesis, expected),
        "rouge-l": rouge_l(hypothesis, expected),
    }
