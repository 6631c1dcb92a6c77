#!/usr/bin/env python3
"""Renders chat templates: Jinja texts of a model's files that turn a conversation into a prompt.

Trireme starts it once and keeps it for a run. Each line on stdin is a JSON object, and each has one line of answer:

    {}                                                             ->  {}
    {"template": TEXT, "variables": {"bos_token": "<s>", ...}}     ->  {}
    {"messages": [...], "tools": [...], "add_generation_prompt": true}  ->  {"text": TEXT}

or {"error": TEXT}. Templates are untrusted code: jinja2's immutable sandbox runs them, in at most 1 GiB of memory.
Trireme limits their time: it kills this process at the end. Strings are those of transformers
(docs/tasks/chat.md lists what that means).
"""

import json
import os
import resource
import sys
from datetime import datetime

SYSTEM_PYTHON = "/usr/bin/python3"

try:
    import jinja2
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError as missing:
    # Debian's Python may have the package where another one is first in PATH.
    if not os.environ.get("TRIREME_PYTHON") and os.path.realpath(sys.executable) != os.path.realpath(SYSTEM_PYTHON):
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, "-B", *sys.argv])
    sys.exit(f"{sys.executable}: {missing}")

MOST_BYTES = 1 << 30
MOST_SECONDS = 60  # of a core, for a request: Trireme's own limit is shorter, but it may have been killed
# Earlier versions have known escapes from the sandbox. Debian's package has another number and the same corrections.
LEAST_JINJA = (3, 1, 6)
CORRECTED = "/usr/lib/python3/dist-packages/"
REASONING = ("reasoning_content", "thinking", "reasoning")


class Generation(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %} marks an answer for training. Here it is its content."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_content"), [], [], body).set_lineno(line)

    def _content(self, caller):
        return caller()


class Dict:
    """The global `dict` of templates: a function, without the attributes of the class."""

    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args):
        return dict.fromkeys(*args)


class Namespace(jinja2.utils.Namespace):
    """The global `namespace` of templates. Names with a leading underscore are refused."""

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        values = dict(*args, **kwargs)
        for name in values:
            Namespace._check(name)
        jinja2.utils.Namespace.__init__(self, values)

    def __setitem__(self, name, value):
        Namespace._check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace has no attribute {name!r}: it begins with _")


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def compiled(source):
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals |= {
        "raise_exception": raise_exception,
        "strftime_now": lambda form: datetime.now().strftime(form),
        "dict": Dict(),
        "namespace": Namespace,
    }
    return environment.from_string(source)


def normalised(message):
    """A message without its null values. Reasoning has the name that templates read, whichever it was given."""
    message = {key: value for key, value in message.items() if value is not None}
    for name in REASONING:
        if name in message:
            return {"thinking": message[name], **message, "reasoning_content": message[name]}
    return message


def answer(request, state):
    if not request:  # Trireme waits until the script has started
        return {}
    if "template" in request:
        state["template"] = compiled(request["template"])
        state["variables"] = request["variables"]
        return {}
    text = state["template"].render(
        messages=[normalised(m) for m in request["messages"]],
        tools=request.get("tools"),
        documents=None,
        add_generation_prompt=request["add_generation_prompt"],
        **state["variables"],
    )
    text.encode()  # raises an error for half a surrogate pair
    return {"text": text}


def explained(error):
    """One line: what failed, and where in the template if jinja2 says so."""
    name = "" if type(error) is jinja2.exceptions.TemplateError else f"{type(error).__name__}: "
    line = getattr(error, "lineno", None)
    return " ".join(f"{name}{error}{f' (line {line} of the template)' if line else ''}".split())


def main():
    version = tuple(int(n) for n in jinja2.__version__.split(".")[:3] if n.isdigit())
    if version < LEAST_JINJA and not jinja2.__file__.startswith(CORRECTED):
        sys.exit(f"jinja2 is version {jinja2.__version__}, want 3.1.6 or later")
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    state = {}
    for line in sys.stdin:
        used = resource.getrusage(resource.RUSAGE_SELF)
        end = int(used.ru_utime + used.ru_stime) + MOST_SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (end, resource.RLIM_INFINITY))
        try:
            said = json.dumps(answer(json.loads(line), state))
        except Exception as error:  # pylint: disable=broad-except  # a template can raise anything
            said = json.dumps({"error": explained(error)})
        print(said, flush=True)


if __name__ == "__main__":
    main()
