"""Records (text, categories, numbers, flags, lists, nested objects), encoded as named features."""

from manylabel_core.records.bounds import RecordError, RecordLimits
from manylabel_core.records.encoder import RecordEncoder
from manylabel_core.records.text import TextSettings
from manylabel_core.records.vectors import Encoded

__all__ = ["Encoded", "RecordEncoder", "RecordError", "RecordLimits", "TextSettings"]
