"""Large bodies of JSON, parsed in pieces, between which other requests are answered: parsing holds the interpreter."""

import asyncio
import gc
import re
from typing import Any

import jiter

from manylabel_service.api.web.bodies import json_value
from manylabel_service.api.web.turns import LARGE_BYTES

PIECE_BYTES = 2**15
"""Parsed at a time; that takes some tenths of a millisecond."""

_LIST = b'{"examples":['
_BEGIN = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"examples"[ \t\r\n]*:[ \t\r\n]*\[')
_BETWEEN = re.compile(rb"\}[ \t\r\n]*,(?=[ \t\r\n]*\{)")


async def read_value(raw: bytes) -> Any:
    """Return the value of a body, as `json_value`: in pieces if it is a large one that begins with its examples."""
    if len(raw) < LARGE_BYTES:
        return json_value(raw, "the body")
    begin = _BEGIN.match(raw)
    if begin is not None:
        examples, rest = await _items(raw, begin.end())
        if examples:
            document = _parsed(_LIST + raw[rest:])
            if document is not None and document["examples"]:  # there is something after the last comma
                document["examples"] = examples + document["examples"]
                return document
            del examples, document
    gc.disable()  # else it walks all values again and again while there are more and more of them
    try:
        return json_value(raw, "the body")
    finally:
        gc.enable()


async def _items(raw: bytes, begin: int) -> tuple[list[Any], int]:
    """Return the items of a list that begins there, but for the last piece of it, and where that begins.

    A piece ends where one object ends before another. They need not be the list's: but then, or within a string, the
    piece is not a list of whole values, and a longer one is tried. If it is one, all that follows is a list again.
    """
    items: list[Any] = []
    size = PIECE_BYTES
    while (end := _BETWEEN.search(raw, begin + size)) is not None:
        piece = _parsed(b"[" + raw[begin : end.end() - 1] + b"]")
        if piece is None:
            size *= 4
        else:
            items += piece
            begin, size = end.end(), PIECE_BYTES
        await asyncio.sleep(0)
    return items, begin


def _parsed(raw: bytes) -> Any:
    """Return the value, or None if this is not JSON."""
    try:
        return jiter.from_json(raw, catch_duplicate_keys=True)
    except ValueError:
        return None
