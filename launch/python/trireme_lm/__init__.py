"""Python package of Trireme: a loaded model (`Trireme`), and a model of lm-evaluation-harness ("trireme")."""

from .model import Score, Trireme
from .process import TriremeError

__all__ = ["Score", "Trireme", "TriremeError"]
