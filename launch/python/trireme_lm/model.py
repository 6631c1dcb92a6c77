"""Loaded model: continuations, log probabilities and conversations from one process.

    with Trireme("MODEL", "--kv-policy h2o --kv-window 512") as model:
        for text in model.generate("Once upon a time", max_tokens=40):
            print(text, end="", flush=True)
"""

import shlex
from typing import NamedTuple

from .process import Process, TriremeError


class Score(NamedTuple):
    """A continuation's log probability (natural logarithm), and whether each of its tokens is the most likely one."""
    logprob: float
    greedy: bool
    tokens: int


class Trireme:
    """A model that stays loaded until close(). Errors of requests raise TriremeError, and the model remains usable."""

    def __init__(self, model, flags="", *, ranks=1, program=None):
        """`model`: as -m takes it. `flags`: those of `trireme pipe`, as one string or as a list. `ranks`: tensor
        parallel ranks, started with mpirun."""
        words = shlex.split(flags) if isinstance(flags, str) else list(flags)
        self._process = Process(["-m", str(model), *words], program, ranks)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        self._process.close()

    @property
    def context(self):
        """The most tokens of a prompt and its continuation."""
        return self._process.greeting["context"]

    @property
    def bos(self):
        """The text of the token that begins texts; None if there is none."""
        return self._process.greeting["bos"]

    @property
    def eos(self):
        return self._process.greeting["eos"]

    def ask(self, requests):
        """The answers to requests of `trireme pipe`, dictionaries, in order: an iterator."""
        return self._process.ask(requests)

    def generate(self, prompt, **settings):
        """Yields the text of a continuation as it is decoded. `prompt`: a text, token ids, or messages (a list of
        dictionaries), which the chat template renders. `settings`: max_tokens, temperature, top_p, top_k, min_p, stop,
        seed, add_special, truncate_left."""
        for answer in self.ask([dict(request_of(prompt), stream=True, **settings)]):
            if "delta" in answer:
                yield answer["delta"]

    def complete(self, prompts, **settings):
        """The answers to prompts, in order: dictionaries with text, finish_reason, prompt_tokens, completion_tokens. With the flag -np N, N of
        them are decoded together."""
        return list(self.ask(dict(request_of(prompt), **settings) for prompt in prompts))

    def score(self, pairs):
        """Log probabilities of continuations: a list of Score for (context, continuation) pairs."""
        asked = ({"context": context, "continuation": continuation} for context, continuation in pairs)
        return [Score(a["logprob"], a["greedy"], a["tokens"]) for a in self.ask(asked)]

    def score_texts(self, texts):
        """Log probabilities of whole texts, in windows of the context: a list of (logprob, tokens)."""
        return [(a["logprob"], a["tokens"]) for a in self.ask({"rolling": text} for text in texts)]

    def tokenize(self, text, add_special=True):
        """The token ids of a text."""
        (answer,) = self.ask([{"tokenize": text, "add_special": add_special}])
        return answer["ids"]

    def render(self, messages):
        """The text that the chat template makes of messages."""
        (answer,) = self.ask([{"render": messages}])
        return answer["text"]

    def chat(self, system=None):
        """A conversation."""
        return Chat(self, system)


class Chat:
    """A conversation: each question is asked with all earlier ones and their answers."""

    def __init__(self, model, system=None):
        self._model = model
        self.messages = [{"role": "system", "content": system}] if system else []

    def ask(self, question, **settings):
        """Yields the answer as it is decoded. The conversation is unchanged if the request fails."""
        messages = [*self.messages, {"role": "user", "content": question}]
        answer = []
        for text in self._model.generate(messages, **settings):
            answer.append(text)
            yield text
        self.messages = [*messages, {"role": "assistant", "content": "".join(answer)}]


def request_of(prompt):
    if isinstance(prompt, str):
        return {"prompt": prompt}
    prompt = list(prompt)
    return {"messages": prompt} if prompt and isinstance(prompt[0], dict) else {"input_ids": prompt}
