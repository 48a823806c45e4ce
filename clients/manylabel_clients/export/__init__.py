"""Linear models as files to take along: one JSON, one Python file without dependencies, one ONNX file."""

from manylabel_extras import require

require(__name__, "core")
