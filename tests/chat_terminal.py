#!/usr/bin/env python3
"""Drives `trireme chat` through a pseudo-terminal, as a person would, and through a pipe.

    chat_terminal.py TRIREME

The small model gets a chat template. Answers must be those of generate --chat, --session and of the same text in one
prompt. Requires Python 3 with jinja2 (launch/packages.txt).
"""

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODEL = Path(__file__).resolve().parent / "data/models/kjv-target"
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}{{ m.content + eos_token }}{% else %}"
    "{{ '[' + m.role + '] ' + m.content + '\n' }}{% endif %}{% endfor %}"
)
PROMPT = "> "
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")


def flags(folder, *more):
    return ["-m", str(folder), "--temp", "0", "-t", "1", "-n", "12", *more]


def output(trireme, *words, text=None):
    run = subprocess.run([trireme, *words], input=text, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, (words, run.stderr)
    return run.stdout


class Terminal:
    """A conversation in a pseudo-terminal."""

    def __init__(self, *words):
        self.child, self.file = pty.fork()
        if self.child == 0:
            os.environ["TERM"] = "xterm"
            os.execv(words[0], words)
        self.screen = ""

    def read(self):
        """Adds what the program writes within 0.2 s to the screen. Fails if it has ended."""
        if not select.select([self.file], [], [], 0.2)[0]:
            return
        try:
            data = os.read(self.file, 65536)
        except OSError:
            data = b""
        assert data, f"the program has ended:\n{self.screen}"
        self.screen += ESCAPES.sub("", data.decode())

    def until(self, wanted, after=0, seconds=60):
        """Reads until the screen has the text after this position; returns the screen after it."""
        end = time.monotonic() + seconds
        while wanted not in self.screen[after:]:
            self.read()
            assert time.monotonic() < end, f"no {wanted!r} within {seconds} s:\n{self.screen!r}"
        return self.screen[after:]

    def type(self, keys):
        # libedit shows its prompt before it switches off the terminal's echo.
        time.sleep(0.1)
        os.write(self.file, keys.encode())

    def say(self, keys, expect=PROMPT):
        """Types a line; returns what the program shows until the next prompt, without the typed line."""
        before = len(self.screen)
        self.type(keys + "\r")
        self.until("\n", before)
        shown = len(self.screen)
        line = self.screen.index("\n", before) + 1
        self.until("\n" + expect, line - 1)
        assert shown >= line
        return self.screen[line : self.screen.rindex(PROMPT)]

    def answer(self, keys):
        """Asks a question; returns the answer, which -n ends."""
        shown = self.say(keys)
        assert shown.endswith("\n(stopped by -n)\n"), shown
        return shown[: -len("\n(stopped by -n)\n")].strip("\n")

    def stop_answer(self, question):
        """Asks a question, and presses Ctrl-C when its answer begins: the small model answers fast."""
        before = len(self.screen)
        self.type(question + "\r")
        self.until("\n", before)
        begin = self.screen.index("\n", before) + 1
        while len(self.screen) == begin:
            self.read()
        os.write(self.file, b"\x03")
        self.until("(stopped)", begin)
        self.until("\n" + PROMPT, self.screen.rindex("(stopped)"))

    def status(self):
        _, status = os.waitpid(self.child, 0)
        os.close(self.file)
        return os.waitstatus_to_exitcode(status)


def session_answers(trireme, folder, questions, work):
    (work / "turns.jsonl").write_text("".join(json.dumps({"prompt": q}) + "\n" for q in questions))
    shown = output(trireme, "generate", *flags(folder, "--chat", "--session", str(work / "turns.jsonl")))
    return [a.strip("\n") for a in re.split(r"=== turn \d+ of \d+ ===\n", shown)[1:]]


def talk(trireme, folder, work):
    questions = ["In the beginning", "And God said", "And God said", "Let there be light: é"]
    answers = session_answers(trireme, folder, questions, work)
    single = output(trireme, "generate", *flags(folder, "--chat", "-p", questions[0]))
    assert answers[0] == single.strip("\n"), (answers[0], single)

    t = Terminal(trireme, "chat", *flags(folder))
    t.until(PROMPT)
    assert "/help lists commands" in t.screen
    # Editing: a character is deleted, and another one inserted in the middle of the line.
    said = t.answer("In tx\x7fe beginning" + "\x1b[D" * 11 + "h")
    assert said == answers[0], (said, answers[0])
    assert t.answer("And God said") == answers[1]
    assert t.answer("\x1b[A") == answers[2], "the last line does not come back"
    assert "tokens" in t.say("/stats") and "no such command" in t.say("/nothing") and "/save FILE" in t.say("/help")
    t.say("/reset")
    assert "no answer yet" in t.say(f"/save {work}/none")
    for question in questions[:3]:
        t.answer(question)
    saved = work / "talk.trireme"
    assert f"saved {saved}" in t.say(f"/save {saved}")
    assert "exists" in t.say(f"/save {saved}")
    t.say("/reset")
    assert t.answer("In the beginning") == answers[0]
    assert f"loaded {saved}" in t.say(f"/load {saved}")
    assert t.answer("Let there be light: é") == answers[3]
    assert "/no/such/file" in t.say("/load /no/such/file")
    # What does not fit, or cannot be loaded, changes nothing.
    t.say("/reset")
    t.answer(questions[0])
    assert "do not fit the context of 2048" in t.say("x y " * 900)
    assert t.answer(questions[1]) == answers[1]
    t.type("\x04")
    assert t.status() == 0, t.screen
    t = Terminal(trireme, "chat", *flags(folder, "-c", "64"))
    t.until(PROMPT)
    t.answer("In")
    assert "start with a larger -c" in t.say(f"/load {saved}")
    t.answer("In")
    t.type("\x04")
    assert t.status() == 0, t.screen


def stop(trireme, folder):
    t = Terminal(trireme, "chat", "-m", str(folder), "--temp", "0", "-t", "1", "--ignore-eos")
    t.until(PROMPT)
    t.stop_answer("In the beginning")
    # The conversation continues, and Ctrl-C at the prompt ends nothing.
    t.type("half a line\x03")
    t.until("\n" + PROMPT, len(t.screen))
    t.stop_answer("And God said")
    os.kill(t.child, signal.SIGTERM)
    assert t.status() in (143, -signal.SIGTERM), t.screen


def document(trireme, folder, work):
    text = "And God said, Let there be light: and there was light.\n" * 30
    (work / "book.txt").write_text(text)
    expected = output(trireme, "generate", *flags(folder, "--chat", "-p", f"{text}\n\nIn the beginning"))
    piped = output(trireme, "chat", *flags(folder, "-f", str(work / "book.txt")), text="In the beginning\n")
    assert piped.strip("\n") == expected.strip("\n"), (piped, expected)
    for spec in (["--spec", "ngram"], ["--kv-on-chip", "0"], ["--spec", "window"]):
        same = output(trireme, "chat", *flags(folder, "-f", str(work / "book.txt"), *spec), text="In the beginning\n")
        assert same == piped, (spec, same, piped)


def pipe_errors(trireme, folder):
    # A line that is not UTF-8 is refused, and the conversation continues.
    run = subprocess.run(
        [trireme, "chat", *flags(folder)], input=b"\xff\nIn the beginning\nlast\\", capture_output=True, check=False, timeout=120
    )
    lines = run.stdout.decode().splitlines()
    assert run.returncode == 0 and "not UTF-8" in lines[0] and len(lines) >= 3, (run.stdout, run.stderr)


def pipe(trireme, folder, work):
    answers = session_answers(trireme, folder, ["In the beginning", "two\nlines"], work)
    piped = output(trireme, "chat", *flags(folder), text="In the beginning\n\ntwo\\\nlines\n/exit\nnever asked\n")
    assert piped.strip("\n") == "\n".join(answers), (piped, answers)
    ranks = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", trireme, "chat", *flags(folder)]
    run = subprocess.run(ranks, input="In the beginning\n", capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0 and run.stdout.strip("\n") == answers[0], (run.stdout, run.stderr)


def main():
    trireme = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        folder = work / "model"
        folder.mkdir()
        for file in ("config.json", "model.safetensors", "tokenizer.model"):
            shutil.copy(MODEL / file, folder)
        config = {"chat_template": TEMPLATE, "bos_token": "<s>", "eos_token": "</s>"}
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        talk(trireme, folder, work)
        stop(trireme, folder)
        document(trireme, folder, work)
        pipe(trireme, folder, work)
        pipe_errors(trireme, folder)
    print("chat: editing, history, commands, Ctrl-C, snapshots, documents, pipes and ranks")


if __name__ == "__main__":
    main()
