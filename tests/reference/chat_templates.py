"""Goldens of chat templates: conversations, and the text that transformers makes of them.

    python tests/reference/chat_templates.py LLAMA_CPP_PYTHON.tar.gz

writes tests/data/chat/goldens.json. The templates are those of published models, from the source package of
llama-cpp-python 0.3.36 (PyPI): vendor/llama.cpp/models/templates, tests/test-chat-template.cpp, and
llama_cpp/llama_chat_format.py. Vicuna and Zephyr are not in it; they are in this file, as their authors published them.
Requires transformers and jinja2 (requirements.txt).
"""

import ast
import json
import re
import sys
import tarfile
from pathlib import Path

from transformers.utils.chat_template_utils import render_jinja_template

OUT = Path(__file__).resolve().parents[1] / "data/chat/goldens.json"
VENDOR = "vendor/llama.cpp/"
FILES = {  # name: file in models/templates
    "llama-3.1": "meta-llama-Llama-3.1-8B-Instruct",
    "llama-3.2": "meta-llama-Llama-3.2-3B-Instruct",
    "qwen2.5": "Qwen-Qwen2.5-7B-Instruct",
    "qwen3": "Qwen-Qwen3-0.6B",
    "phi-3.5": "microsoft-Phi-3.5-mini-instruct",
    "mistral-nemo": "mistralai-Mistral-Nemo-Instruct-2407",
    "smollm3": "HuggingFaceTB-SmolLM3-3B",
    "deepseek-r1-distill": "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
}
CASES = {  # name: test of test-chat-template.cpp
    "llama-3": "Llama-3",
    "llama-2": "TheBloke/FusionNet_34Bx2_MoE-AWQ",
    "phi-3-mini": "Phi-3-mini",
    "mistral-v0.2": "mistralai/Mistral-7B-Instruct-v0.2 (NOTE: Old pre-v1 without a system prompt)",
    "mistral-v1": "mistralai/Mistral-7B-Instruct-v0.2 (mistralai 'v1' template with a system prompt)",
    "gemma": "google/gemma-7b-it",
}
OWN = {
    "vicuna": (
        "{% if messages[0]['role'] == 'system' %}{{ messages[0]['content'] + ' ' }}{% set rest = messages[1:] %}"
        "{% else %}{% set rest = messages %}{% endif %}{% for m in rest %}{% if m['role'] == 'user' %}"
        "{{ 'USER: ' + m['content'] + ' ' }}{% else %}{{ 'ASSISTANT: ' + m['content'] + eos_token }}{% endif %}"
        "{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
    ),
    "zephyr": (
        "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + "
        "eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n"
        "{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n"
        "{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"
    ),
    "smollm2": (
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
        "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
        "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    ),
    "generation tag, loop controls, null members": (
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'tool' %}{% continue %}{% endif %}"
        "{% generation %}{{ m.content | trim }}{{ m | tojson(indent=1) }}{% endgeneration %}{{ m.name is defined }}"
        "{% if loop.index0 == 2 %}{% break %}{% endif %}\n{% endfor %}{{ pad_token is defined }}{{ tools is none }}"
        "{% set ns = namespace(n=1) %}{% set ns.n = ns.n + 1 %}{{ ns.n }}{{ dict(a=1) | tojson }}\n"
    ),
    "raises": "{{ raise_exception('only <roles> that alternate') }}",
    "writes private names": "{% set ns = namespace(_x=1) %}",
    "reaches for code": "{{ ''.__class__.__mro__ }}|{{ messages.__init__.__globals__ }}",
    "changes its input": "{{ messages.append(1) }}",
    "does not parse": "{% for m in messages %}{{ m.content }}",
}
VARIABLES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Weather of a “city” <now>",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]


def say(*texts, system=None):
    roles = ["user", "assistant"] * len(texts)
    first = [{"role": "system", "content": system}] if system is not None else []
    return first + [{"role": role, "content": text} for role, text in zip(roles, texts)]


CONVERSATIONS = [
    {"messages": say("Hello")},
    {"messages": say("Hello", system="You are terse.")},
    {"messages": say("  What is “α”?\n", " It is é & <b>. ", "And </s> or <|im_end|>?\n\n", system="Two\nlines")},
    {"messages": say("1", "<think>\nwell\n</think>\n\n2", "3", "4", "5")},
    {"messages": say("one", "two")},
    {"messages": [{"role": "user", "content": "null", "name": None}, {"role": "assistant", "content": None}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "a part"}]}]},
    {"messages": [{"role": "assistant", "content": "first", "reasoning": "why"}, *say("second")]},
    {"messages": say("Weather in Rome?"), "tools": TOOLS},
    {
        "messages": [
            *say("Weather in Rome?"),
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {
                        "id": "abcdefghi",
                        "type": "function",
                        "function": {"name": "weather", "arguments": {"city": "Rome"}},
                    }
                ],
            },
            {"role": "tool", "content": "sunny", "tool_call_id": "abcdefghi", "name": "weather"},
        ],
        "tools": TOOLS,
    },
]


def templates(path):
    with tarfile.open(path) as tar:
        root = tar.getnames()[0].split("/")[0] + "/"

        def text(name):
            return tar.extractfile(root + name).read().decode()

        for name, file in FILES.items():
            # A golden must not depend on the day.
            yield name, re.sub(r"strftime_now\([^)]*\)", "'1 May 2026'", text(f"{VENDOR}models/templates/{file}.jinja"))
        tests = text(f"{VENDOR}tests/test-chat-template.cpp")
        for name, test in CASES.items():
            found = re.search(rf'name= \*/ "{re.escape(test)}",\s*/\* \.template_str= \*/ ("(?:[^"\\]|\\.)*"),', tests)
            yield name, json.loads(found.group(1).replace("\\'", "'"))
        formats = ast.parse(text("llama_cpp/llama_chat_format.py"))
        for node in formats.body:
            if isinstance(node, ast.Assign) and node.targets[0].id == "CHATML_CHAT_TEMPLATE":
                yield "chatml", ast.literal_eval(node.value)
    yield from OWN.items()


def rendered(source, conversation):
    # As apply_chat_template does before it calls the same function.
    messages = [{k: v for k, v in m.items() if v is not None} for m in conversation["messages"]]
    try:
        texts, _ = render_jinja_template(
            [messages],
            tools=conversation.get("tools"),
            chat_template=source,
            add_generation_prompt=True,
            **VARIABLES,
        )
    except Exception as error:  # pylint: disable=broad-except  # a template can raise anything
        return {"error": type(error).__name__}
    return {"text": texts[0]}


def main():
    made = [
        {"name": name, "template": source, "results": [rendered(source, c) for c in CONVERSATIONS]}
        for name, source in templates(sys.argv[1])
    ]
    OUT.parent.mkdir(exist_ok=True)
    golden = {"variables": VARIABLES, "conversations": CONVERSATIONS, "templates": made}
    OUT.write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
