#!/usr/bin/env python3
"""Checks that batch's results in OpenAI's form parse with the types of the Python package openai (2.x).

    openai_types.py TRIREME

Runs the small model on completions, a chat completion and a bad request. Requires openai (pip install openai).
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from openai.types import Completion
from openai.types.chat import ChatCompletion

MODEL = Path(__file__).resolve().parent / "data/models/kjv-target"
TEMPLATE = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]"
HELLO = [{"role": "user", "content": "In the beginning"}]
REQUESTS = [
    ("text", "/v1/completions", {"model": "kjv", "prompt": "In the beginning", "max_tokens": 5}),
    ("ids", "/v1/completions", {"model": "kjv", "prompt": [1, 2, 3], "max_tokens": 5, "stop": ["God"]}),
    ("chat", "/v1/chat/completions", {"model": "kjv", "messages": HELLO, "max_completion_tokens": 5}),
    ("bad", "/v1/chat/completions", {"model": "kjv", "messages": HELLO, "n": 2}),
]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in ("config.json", "model.safetensors", "tokenizer.model"):
            shutil.copy(MODEL / file, folder)
        config = {"chat_template": TEMPLATE, "bos_token": "<s>"}
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        lines = [{"custom_id": i, "method": "POST", "url": url, "body": body} for i, url, body in REQUESTS]
        (folder / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        out = folder / "out.jsonl"
        command = [sys.argv[1], "batch", "-m", name, "--input", str(folder / "in.jsonl"), "-o", str(out), "--temp", "0"]
        subprocess.run(command, check=True, capture_output=True)
        results = [json.loads(line) for line in out.read_text().splitlines()]
    assert [r["custom_id"] for r in results] == [line["custom_id"] for line in lines], results
    for result in results[:3]:
        assert result["error"] is None and result["response"]["status_code"] == 200, result
        kind = ChatCompletion if result["custom_id"] == "chat" else Completion
        body = result["response"]["body"]
        parsed = kind.model_validate(body, strict=True)
        assert parsed.usage.completion_tokens <= 5 and parsed.choices[0].finish_reason in ("length", "stop"), parsed
        # Nothing is left out, and nothing is there that the type does not have.
        assert not parsed.model_extra, parsed.model_extra
        assert parsed.model_dump(exclude_unset=True) == body, (parsed, body)
    bad = results[3]
    assert bad["response"]["status_code"] == 400 and bad["response"]["body"] is None and bad["error"]["error"], bad
    print(f"{len(results)} results have the types of openai")


if __name__ == "__main__":
    main()
