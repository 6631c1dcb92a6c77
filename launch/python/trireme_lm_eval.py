"""Registration of the model "trireme" in lm-evaluation-harness. A wheel imports this module when Python starts
(trireme.pth). It does nothing until the harness imports its models."""

import importlib.util
import sys


class Finder:
    """Finds the module lm_eval.models, and adds the model to the harness's registry when it has been imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "lm_eval.models":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            try:
                from lm_eval.api.registry import model_registry
            except ImportError:  # a harness before 0.4.10 has no names of models that are imported later
                return
            model_registry.register("trireme", target="trireme_lm.harness:TriremeLM")

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
