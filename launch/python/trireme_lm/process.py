"""Process of `trireme pipe`: requests and answers are JSON objects, a line each (docs/reference/pipe.md)."""

import json
import os
import shutil
import subprocess
import threading
from collections import deque
from pathlib import Path


class TriremeError(RuntimeError):
    """A request that failed, or a process that ended. The message is Trireme's line."""


def find_program(program=None):
    """The path of the program: `program`, $TRIREME, the tree that this package belongs to, or PATH, in this order."""
    tree = Path(__file__).absolute().parents[4]  # TREE/share/trireme/python/trireme_lm
    here = Path(__file__).absolute().parent / "tree" / "run"  # a wheel's tree
    for path in (program, os.environ.get("TRIREME"), here, tree / "bin" / "trireme", shutil.which("trireme")):
        if path and Path(path).exists():
            return str(path)
    raise TriremeError("the program trireme is not found: install it, or name it in the variable TRIREME")


class Process:
    """A running `trireme pipe`. Answers come in the order of the requests."""

    def __init__(self, flags, program=None, ranks=1, environment=None):
        words = [find_program(program), "pipe", *flags]
        if ranks > 1:
            words = ["mpirun", "-n", str(ranks), *words]
        # None removes a variable.
        env = {name: value for name, value in {**os.environ, **(environment or {})}.items() if value is not None}
        if ranks > 1 and os.geteuid() == 0:
            env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self._said = deque(maxlen=20)  # the last lines of stderr
        self._child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True, encoding="utf-8", env=env)  # fmt: skip
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.greeting = self._read()  # model, context, vocab, bos, eos
        self._sent = 0

    def ask(self, requests):
        """Sends requests, and yields their answers, in order. An answer with "error" raises TriremeError."""
        for answer in self.answers(requests):
            if "error" in answer:
                raise TriremeError(answer["error"])
            yield answer

    def answers(self, requests):
        """Like ask(), but yields errors as answers. Lines with "delta" are parts of an answer that is streamed."""
        requests = list(requests)
        lines = [json.dumps(request, ensure_ascii=False) + "\n" for request in requests]
        # A thread sends, because the pipes hold only some lines: requests wait there while answers are read.
        sender = threading.Thread(target=self._send, args=(lines,), daemon=True)
        sender.start()
        left = len(lines)
        while left:
            answer = self._read()
            left -= "delta" not in answer
            yield answer
        sender.join()

    def close(self):
        """Ends the process; it answers no more."""
        if self._child.poll() is None:
            self._child.stdin.close()
            self._child.wait()
        self._listener.join()
        self._child.stdout.close()
        self._child.stderr.close()

    def kill(self):
        self._child.kill()
        self._child.wait()

    def _send(self, lines):
        try:
            for line in lines:
                self._child.stdin.write(line)
            self._child.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # the reader of answers reports why the process ended

    def _read(self):
        line = self._child.stdout.readline()
        if line:
            return json.loads(line)
        status = self._child.wait()
        self._listener.join()
        words = [line for line in self._said if "error: " in line] or list(self._said)
        raise TriremeError(words[-1].strip() if words else f"trireme pipe ended with status {status}")

    def _listen(self):
        for line in self._child.stderr:
            self._said.append(line)
