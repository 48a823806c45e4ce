"""Export to one Python file without dependencies, which has the model, and the code to encode records and predict."""

import inspect
import json
import re
from types import ModuleType

from manylabel_clients.export import predictor
from manylabel_clients.export.portable import Portable
from manylabel_core.records import bounds, encoder, number_fields, text, tokeniser
from manylabel_core.rows import MAX_MAGNITUDE
from manylabel_core.scaling import _automatic

HEAD = '''"""The model {model} of ManyLabel: `scores(x)`, `predict(x)`, `probabilities(x)`. Needs Python 3.11 alone.

From a shell: python {model}.py '{{"title": "An example"}}'
"""

from __future__ import annotations
'''
TAIL = """
_predictor = LinearPredictor(json.loads(MODEL))
scores, predict, probabilities = _predictor.scores, _predictor.predict, _predictor.probabilities

if __name__ == "__main__":
    import sys

    try:
        (example,) = map(json.loads, sys.argv[1:])
    except ValueError:
        sys.exit(f"usage: python {sys.argv[0]} EXAMPLE, an example in JSON: '{{\\"title\\": \\"...\\"}}'")
    print(json.dumps({"labels": predict(example), "scores": scores(example)}))
"""
_AS_MODULE = """
class tokeniser:
    words, is_emoji, VERSION = staticmethod(words), staticmethod(is_emoji), VERSION
"""

_OF_SCALING = (
    *("AWAY", "EARLY", "FAR", "FAR_IN_A_ROW", "FAR_OF_FEW", "FEW"),
    *("LEAVES", "NEARBY", "NEAR_IN_A_ROW", "VARIES", "WAITS"),
)
"""Constants of the scaling, which the predictor imports."""


def python_file(model: Portable) -> str:
    """Return the file."""
    parts = [
        HEAD.format(model=model["model"]),
        "import json\n",
        f"MAX_MAGNITUDE = {MAX_MAGNITUDE!r}\n",
        *(f"{name} = {getattr(_automatic, name)!r}\n" for name in _OF_SCALING),
    ]
    parts += [_source(bounds), _source(tokeniser), _AS_MODULE]
    parts += map(_source, (text, encoder, number_fields, predictor))
    # JSON in a Python string is parsed faster than a Python literal, and no sequence in it ends the string.
    return "\n".join([*parts, f"MODEL = {json.dumps(model)!r}\n", TAIL])


def _source(module: ModuleType) -> str:
    """Return the code of a module without its docstring and its imports from this project."""
    source = inspect.getsource(module).replace(f'"""{module.__doc__}"""', "", 1)
    source = re.sub(r"^from (manylabel|__future__)\S* import (\([^)]*\)|[^\n]*)\n", "", source, flags=re.MULTILINE)
    return source.strip("\n") + "\n"
