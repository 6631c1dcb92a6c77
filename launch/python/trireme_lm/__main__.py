"""lm_eval with the model "trireme": `python3 -m trireme_lm --model trireme --model_args model=M --tasks ...`."""

import sys

try:
    from lm_eval.__main__ import cli_evaluate
except ImportError:
    sys.exit("trireme_lm: lm-evaluation-harness is not installed; pip install lm-eval")

from . import harness  # noqa: F401 - registers the model

cli_evaluate()
