"""Refusals of scripts, turned into errors."""

from collections.abc import Sequence
from typing import Any

from manylabel_service.errors import LogLost, LogSealed, LogTrimmed, ModelGone
from manylabel_service.storage.checksums import damaged_entry
from manylabel_service.storage.protocol import ModelMeta
from manylabel_service.storage.redis.keys import position_of


def check(answer: Sequence[Any], record: ModelMeta, position: str) -> None:
    """Raise the error of a refusal."""
    match answer[0]:
        case "gone":
            raise ModelGone(record.name, record.incarnation)
        case "sealed":
            raise LogSealed(name=record.name)
        case "trimmed":
            raise LogTrimmed(record.name, position, position_of(answer[1].decode()))
        case "lost":
            raise LogLost(record.name, position)
        case "damaged":
            raise damaged_entry(record.name, position_of(answer[1].decode()))
