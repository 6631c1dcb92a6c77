"""Process of `trireme pipe`: requests and answers are JSON objects, a line each (docs/reference/pipe.md)."""

import json
import os
import queue
import shutil
import subprocess
import threading
from collections import deque
from pathlib import Path

PATIENCE_S = 5  # from SIGTERM to SIGKILL


class TriremeError(RuntimeError):
    """A request that failed, or a process that ended. The message is Trireme's line; `status`: the process's exit status, None for
    a request."""

    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status


def find_program(program=None):
    """The path of the program: `program`, $TRIREME, the tree that this package belongs to, or PATH, in this order. A program that
    is named must be there."""
    for name in (program, os.environ.get("TRIREME")):
        if name:
            if not Path(name).exists():
                raise TriremeError(f"{name}: no such program", 66)
            return str(name)
    folder = Path(__file__).absolute().parent
    trees = [folder / "tree" / "run"]  # a wheel's
    if len(folder.parents) > 3:  # TREE/share/trireme/python/trireme_lm
        trees.append(folder.parents[3] / "bin" / "trireme")
    for path in (*trees, shutil.which("trireme")):
        if path and Path(path).exists():
            return str(path)
    raise TriremeError("the program trireme is not found: install it, or name it in the variable TRIREME", 69)


def words_of(program, words, ranks):
    """The words that start a command on `ranks` ranks."""
    if ranks == 1:
        return [program, *words]
    if Path(program).name == "run":  # a tree that has its own mpirun
        return [program, "-n", str(ranks), *words]
    return ["mpirun", "-n", str(ranks), program, *words]


def environment_of(variables, ranks):
    """The environment with these variables; None removes one."""
    env = {name: value for name, value in {**os.environ, **(variables or {})}.items() if value is not None}
    if ranks > 1 and os.geteuid() == 0:
        env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return env


class Process:
    """A running `trireme pipe`. Answers come in the order of the requests. A request that is abandoned is computed all the same;
    its answer is dropped."""

    def __init__(self, flags, program=None, ranks=1, variables=None):
        words = words_of(find_program(program), ["pipe", *flags], ranks)
        self._said = deque(maxlen=20)  # the last lines of stderr
        self._sent = self._answered = 0  # requests
        self._lines = queue.Queue()  # to be sent; None: no more
        self._child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       encoding="utf-8", errors="replace", env=environment_of(variables, ranks))  # fmt: skip
        # Pipes hold only some lines, so a thread sends requests while answers are read.
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._listen, self._send)]
        for thread in self._threads:
            thread.start()
        try:
            self.greeting = self._read()  # model, context, vocab, bos, eos
        except BaseException:
            self.close()
            raise

    def ask(self, requests):
        """Sends requests, and yields their answers, in order. An answer with "error" raises TriremeError."""
        for answer in self.answers(requests):
            if "error" in answer:
                raise TriremeError(answer["error"])
            yield answer

    def answers(self, requests):
        """Like ask(), but yields errors as answers. Lines with "delta" are parts of an answer that is streamed."""
        first = self._sent
        for request in requests:
            self._lines.put(json.dumps(request) + "\n")
            self._sent += 1
        end = self._sent
        left = end - first
        while left:
            if self._sent != end:
                raise TriremeError("another request was sent before all answers to this one were read")
            answer = self._read()
            done = "delta" not in answer
            if done:
                self._answered = answer["index"] + 1
            if answer["index"] >= first:
                left -= done
                yield answer

    def close(self):
        """Ends the process; it answers no more."""
        self._lines.put(None)
        if self._answered < self._sent and self._child.poll() is None:
            self._child.terminate()  # it would first answer all that was sent
        self._child.stdout.close()
        try:
            self._child.wait(PATIENCE_S if self._answered < self._sent else None)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        for thread in self._threads:
            thread.join()
        self._child.stderr.close()

    def _send(self):
        try:
            while True:
                line = self._lines.get()
                if line is None:
                    break
                self._child.stdin.write(line)
                if self._lines.empty():
                    self._child.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # the reader of answers reports why the process ended
        finally:
            try:
                self._child.stdin.close()
            except BrokenPipeError:
                pass

    def _read(self):
        line = self._child.stdout.readline()
        if line:
            return json.loads(line)
        status = self._child.wait()
        self._threads[0].join()
        words = [line for line in self._said if "error: " in line] or list(self._said)
        raise TriremeError(words[-1].strip() if words else f"trireme pipe ended with status {status}", status)

    def _listen(self):
        for line in self._child.stderr:
            self._said.append(line)
