"""Messages of a topic, and the examples and models that they name."""

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from manylabel_clients.http.resources.examples import encode_example
from manylabel_core.datasets.formats.example_rows import RowParts
from manylabel_core.datasets.formats.ndjson import JsonLines, json_object
from manylabel_core.datasets.limits import BadDataset

PLACEHOLDER = "{}"
"""Placeholder in the name of a model for the value of a field or header of the message."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?")


class Message(NamedTuple):
    """Message of a topic."""

    partition: int
    offset: int
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Lesson(NamedTuple):
    """Example of a message, as JSON, for a model."""

    message: Message
    model: str
    example: bytes


class Refusal(NamedTuple):
    """Message that cannot be learnt."""

    message: Message
    code: str
    """Code of the error, such as ``model_not_found`` of the server, or ``invalid_message``."""
    detail: str
    model: str | None = None


class Unlabelled(NamedTuple):
    """Message whose labels are unknown."""

    message: Message


@dataclass(frozen=True)
class Addressing:
    """Rule that finds the model of a message.

    Attributes
    ----------
    model : str
        Name of the model, in which `{}` stands for the value of the field or header.
    field : str, optional
        Field of the message that names the model. It is not learnt.
    header : str, optional
        Header of the message that names the model.
    """

    model: str = PLACEHOLDER
    field: str | None = None
    header: str | None = None

    def model_of(self, message: Message, item: dict[str, Any]) -> str:
        """Return the name of the model, and remove its field from the item.

        Raises
        ------
        ValueError
            If the message does not name a model.
        """
        if self.field is not None:
            value, where = item.pop(self.field, None), f"field {self.field}"
            if not isinstance(value, str) and type(value) is not int:
                raise ValueError(f"the {where}, which names the model, must be a string, not {_kind(value)}")
        elif self.header is not None:
            value, where = _header(message, self.header), f"header {self.header}"
        else:
            return self.model
        name = self.model.replace(PLACEHOLDER, str(value))
        if not _NAME.fullmatch(name):
            raise ValueError(f"the {where} names no model: {name[:100]!r}")
        return name


class MessageReader:
    """Reader of messages, which have the format of JSON lines: an example with `x` and `y`, or a record with a field of
    labels.

    Parameters
    ----------
    addressing : how the model is found.
    options : attributes of `RowParts` that JSON lines take, such as `label_columns`, `tags` and `weight`. Raises
        BadDataset if they conflict.
    """

    def __init__(self, addressing: Addressing, options: Mapping[str, Any]) -> None:
        self._addressing = addressing
        self.model = addressing.model if addressing.field is addressing.header is None else None
        """The model of all messages; None if each message names its model."""
        self._lines = JsonLines(io.BytesIO(), RowParts(**options))

    def read(self, message: Message) -> Lesson | Unlabelled | Refusal:
        """Return the lesson in a message, or the reason why the message has no lesson."""
        if message.value is None:
            return Refusal(message, "tombstone", "the message has no value: nothing is learnt or forgotten")
        model = None
        try:
            item = json_object(message.value.decode().removeprefix("\ufeff"))
            model = self._addressing.model_of(message, item)
            row = self._lines.row(item, 1)
            if row.y is None:
                return Unlabelled(message)
            return Lesson(message, model, encode_example(row.x, row.y, row.weight, None, row.ref))
        except UnicodeDecodeError as error:
            return Refusal(message, "invalid_message", f"the message is not UTF-8 (byte {error.start + 1})")
        except (TypeError, ValueError, RecursionError) as error:
            detail = error.detail if isinstance(error, BadDataset) else str(error)
            return Refusal(message, "invalid_message", detail, model)


def _header(message: Message, name: str) -> str:
    values = [value for header, value in message.headers if header == name and value is not None]
    if len(values) != 1:
        raise ValueError(f"the header {name}, which names the model, must occur once, not {len(values)} times")
    try:
        return values[0].decode()
    except UnicodeDecodeError:
        raise ValueError(f"the header {name} is not UTF-8") from None


def _kind(value: Any) -> str:
    return "missing" if value is None else type(value).__name__
