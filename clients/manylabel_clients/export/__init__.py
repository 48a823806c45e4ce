"""Export of linear models: a JSON file, a Python file without dependencies, or an ONNX file."""

from manylabel_extras import require

require(__name__, "core")
