"""API key that a client sends with each request, hidden in output."""

import hmac
import os
import re
from typing import NoReturn, Self

KEY_VARIABLE = "MANYLABEL_API_KEY"
"""Environment variable with the default key, for the clients and the command."""


class Secret:
    """Text that is hidden in reprs, messages and pickles; `text` returns it."""

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
        raise TypeError(f"an API key cannot be pickled: set {KEY_VARIABLE} in the other process")


def authorization(api_key: str | Secret | None) -> dict[str, str]:
    """Return the header with a key, by default the key in ``MANYLABEL_API_KEY``; without a key, return no header.

    Raises ValueError if the key cannot be sent; the message does not contain the key.
    """
    name, text = "api_key", api_key.text if isinstance(api_key, Secret) else api_key
    if text is None:
        name, text = KEY_VARIABLE, os.environ.get(KEY_VARIABLE) or None
    if text is None:
        return {}
    if not re.fullmatch("[!-~]{1,4096}", text):
        raise ValueError(f"{name} must consist of visible ASCII characters, as a key does; its value is not shown")
    return {"Authorization": f"Bearer {text}"}
