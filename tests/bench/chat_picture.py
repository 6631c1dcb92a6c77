#!/usr/bin/env python3
"""Draws a conversation in a terminal as docs/pictures/chat.png.

    chat_picture.py TRIREME MODEL DOCUMENT OUT.png

Requires matplotlib.
"""

import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from chat_terminal import PROMPT, Terminal

COLUMNS = 100


def wrapped(line):
    return [line[i : i + COLUMNS] for i in range(0, max(len(line), 1), COLUMNS)]


def main():
    trireme, model, document, out = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        t = Terminal(trireme, "chat", "-m", model, "-f", document, "--spec", "suffix", "-n", "60", "--no-progress")
        t.until("\n" + PROMPT, seconds=300)
        t.say("What is this text about?")
        t.say("Who are the people in it?")
        t.say("/stats")
        t.say(f"/save {folder}/talk.trireme")
        t.type("\x04")
        t.status()
        screen = t.screen.replace(folder + "/", "").replace(model, Path(model).name)
    lines = [f"$ trireme chat -m {Path(model).name} -f {Path(document).name} --spec suffix -n 60"]
    for line in screen.rstrip("\n> ").split("\n"):
        lines += wrapped(line)
    figure = plt.figure(figsize=(9, 0.19 * len(lines) + 0.3), facecolor="#1e1e1e")
    for i, line in enumerate(lines):
        typed = line.startswith((PROMPT, "$ "))
        y = 1 - (i + 0.8) / (len(lines) + 0.6)
        figure.text(0.02, y, line, family="monospace", size=9, color="#8fd3ff" if typed else "#e6e6e6")
    figure.savefig(out, dpi=110, facecolor=figure.get_facecolor())


if __name__ == "__main__":
    main()
