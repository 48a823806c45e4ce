"""The key that a client sends with each request, and never shows."""

from __future__ import annotations

import hmac
import os
import re
from typing import NoReturn, Self

KEY_VARIABLE = "MANYLABEL_API_KEY"
"""Environment variable that has the key where none is given, for the command as for the clients."""


class Secret:
    """A secret is a text that shows up in no repr, no message and no pickle.

    Parameters
    ----------
    text : str
        The text, which `text` gives back.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self.text.encode(), other.text.encode())

    def __hash__(self) -> int:
        return hash(self.text)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a key is not pickled: give it to the other process as {KEY_VARIABLE}")


def authorization(api_key: str | Secret | None) -> dict[str, str]:
    """Return the header that shows a key; none where there is none.

    Parameters
    ----------
    api_key : str, Secret or None
        The key; None takes what the environment variable ``MANYLABEL_API_KEY`` says, if it says anything.

    Raises
    ------
    ValueError
        It cannot be sent; the message does not have it.
    """
    name, text = "api_key", api_key.text if isinstance(api_key, Secret) else api_key
    if text is None:
        name, text = KEY_VARIABLE, os.environ.get(KEY_VARIABLE) or None
    if text is None:
        return {}
    if not re.fullmatch("[!-~]{1,4096}", text):
        raise ValueError(f"{name} must consist of visible ASCII characters, as a key does; what it has is not shown")
    return {"Authorization": f"Bearer {text}"}
