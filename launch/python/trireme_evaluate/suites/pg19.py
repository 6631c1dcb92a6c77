"""Perplexity of books, such as PG-19's, in Hugging Face's sliding windows.

The data are a folder of text files. Windows have the requested length and overlap by half. A book ends after eight
lengths, so that the time does not depend on the books."""

from itertools import islice

from trireme_evaluate.items import Item, MissingData, data_folder

TASKS = ("pg19",)
LENGTHS_READ = 8
BYTES_A_TOKEN = 8  # at most as many as English texts have


def books(request):
    folder = data_folder("pg19", request, "a folder of books as .txt files")
    found = sorted(path for path in folder.iterdir() if path.suffix == ".txt" and path.stat().st_size > 1)
    if not found:
        raise MissingData(f"pg19: {folder} has no .txt file; expected a book in each")
    return list(islice(found, request.limit or None))


def items(request):
    if request.length < 2:
        raise ValueError("pg19: found no length, expected the tokens of a window (--lengths)")
    return map(lambda path: item(path, request.length), books(request))


def item(path, length):
    """A book's first tokens: the text is cut at the last line that begins within the limit."""
    text = path.read_text(encoding="utf-8", errors="replace")
    most = LENGTHS_READ * length * BYTES_A_TOKEN // 2
    if len(text) > most:
        text = text[: text.rfind("\n", 0, most) + 1 or most]
    return Item(task="pg19", name=path.name, prompt=text, references=(), max_tokens=0, metric="perplexity",
                extra={"window": length, "stride": max(1, length // 2)})  # fmt: skip


def describe(request):
    return f"perplexity of {len(books(request))} texts; windows overlap by half; the first {LENGTHS_READ * BYTES_A_TOKEN // 2} characters for each token of the length"
