"""Model "trireme" of lm-evaluation-harness.

    python3 -m trireme_lm --model trireme --model_args 'model=M,flags=--kv-policy h2o --kv-window 512' --tasks ...

Token ids, windows and truncation follow the harness's own model "hf" (docs/tasks/evaluate.md)."""

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from .model import Trireme


@register_model("trireme")
class TriremeLM(LM):
    """`model`: as -m takes it; `flags`: those of `trireme pipe`; `parallel`: requests decoded together (-np)."""

    def __init__(self, model=None, pretrained=None, flags="", parallel=1, ranks=1, max_gen_toks=256, program=None, batch_size=None,
                 device=None, **unknown):  # fmt: skip
        super().__init__()
        if unknown:
            raise ValueError(f"trireme: unknown model_args {', '.join(unknown)}; want model, flags, parallel, ranks, max_gen_toks")
        if device not in (None, "cpu", "cuda", "cuda:0"):
            raise ValueError(f"trireme: device {device}: give --device in flags")
        name = model or pretrained
        if not name:
            raise ValueError("trireme: no model; give --model_args model=PATH")
        if str(batch_size or 1).isdigit():
            parallel = max(int(parallel), int(batch_size or 1))
        self._name = str(name)
        self._most = int(max_gen_toks)
        self.engine = Trireme(name, f"{flags} --parallel {parallel} --no-progress", ranks=int(ranks), program=program)

    def loglikelihood(self, requests, disable_tqdm=False):
        scores = self.engine.score(request.args for request in requests)
        results = [(score.logprob, score.greedy) for score in scores]
        for request, result in zip(requests, results):
            self.cache_hook.add_partial("loglikelihood", request.args, result)
        return results

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        results = [logprob for logprob, _ in self.engine.score_texts(request.args[0] for request in requests)]
        for request, result in zip(requests, results):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, result)
        return results

    def generate_until(self, requests, disable_tqdm=False):
        # Sampled requests have a seed each, because a task may repeat one.
        asked = [dict(self._request(*request.args), seed=number) for number, request in enumerate(requests)]
        texts = []
        for request, answer in zip(requests, self.engine.ask(asked)):
            texts.append(answer["text"])
            self.cache_hook.add_partial("generate_until", request.args, answer["text"])
        return texts

    def _request(self, context, settings):
        settings = dict(settings)
        until = settings.pop("until", None) or []
        sampled = settings.pop("do_sample", None)
        temperature = float(settings.pop("temperature", 1.0 if sampled else 0.0)) if sampled is not False else 0.0
        request = {"prompt": context, "truncate_left": True, "temperature": temperature,
                   "max_tokens": self._most_tokens(settings),
                   "stop": [until] if isinstance(until, str) else list(until)}  # fmt: skip
        if self.engine.bos and context.startswith(self.engine.bos):
            request["add_special"] = False  # as after a chat template
        for key in ("top_p", "top_k", "min_p"):
            if key in settings:
                request[key] = settings[key]
        request["stop"] = [text for text in request["stop"] if text]
        return request

    def _most_tokens(self, settings):
        """The harness's names of the most new tokens, in its order (normalize_gen_kwargs)."""
        for name in ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"):
            if settings.get(name) is not None:
                return int(settings[name])
        return self._most

    @property
    def tokenizer_name(self):
        return self._name.replace("/", "__")

    def chat_template(self, chat_template=False):
        return self._name if chat_template else ""

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        if add_generation_prompt:
            return self.engine.render(chat_history)
        # The last message is the beginning of an answer.
        return self.engine.render(chat_history[:-1]) + chat_history[-1]["content"]
