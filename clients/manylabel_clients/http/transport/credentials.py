"""API key that a client sends with each request, and tokens derived from it; both are hidden in output."""

import base64
import hashlib
import hmac
import os
import re
import time
from typing import NoReturn, Self

KEY_VARIABLE = "MANYLABEL_API_KEY"
"""Environment variable with the default key, for the clients and the command."""

MAX_TOKEN_SECONDS = 3600
"""Maximum validity of a token in seconds."""

_KEY = re.compile(r"ml_([a-z0-9]{12})_([A-Za-z0-9]{43})")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")


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
        raise TypeError(f"a key is not pickled: pass it to the other process as {KEY_VARIABLE}")


def authorization(api_key: str | Secret | None) -> dict[str, str]:
    """Return the header with a key or token, by default of ``MANYLABEL_API_KEY``; no header if there is neither.

    Raises ValueError, without the key in its message, if it cannot be sent.
    """
    name, text = "api_key", api_key.text if isinstance(api_key, Secret) else api_key
    if text is None:
        name, text = KEY_VARIABLE, os.environ.get(KEY_VARIABLE) or None
    if text is None:
        return {}
    if not re.fullmatch("[!-~]{1,4096}", text):
        raise ValueError(f"{name} must consist of visible ASCII characters, as a key does; its value is not shown")
    return {"Authorization": f"Bearer {text}"}


def derive_token(key: str, model: str, seconds: int = 300) -> str:
    """Return a short-lived token for predictions of one model, for example for a browser.

    No request is made: the owner of a key with the scope ``predict`` can derive tokens from it. A token expires after
    its own lifetime, or earlier when the key is revoked or expires. It shares the key's rate limits.

    Parameters
    ----------
    key : str
        A key, ``ml_...``.
    model : str
        Name of the model.
    seconds : int, default=300
        Validity in seconds from now, by the clock of this machine: 1 to 3600.

    Returns
    -------
    str
        The token, ``mlt_<id of the key>_<Unix time of its end>_<model as base64url>_<HMAC-SHA256>``, which is sent like
        a key.

    Raises
    ------
    ValueError
        If `key` is not a key, `model` is not a model name, or `seconds` is out of range.

    Examples
    --------
    >>> token = derive_token("ml_abcdefghijkl_" + 43 * "A", "tags", seconds=60)
    >>> token.rsplit("_", 2)[1], token[:16]
    ('dGFncw', 'mlt_abcdefghijkl')
    """
    found = _KEY.fullmatch(key)
    if found is None:
        raise ValueError("key must be a key of a server, ml_ and so on; its value is not shown")
    if not _NAME.fullmatch(model):
        raise ValueError(f"model must be the name of one model, not {model!r}")
    if type(seconds) is not int or not 1 <= seconds <= MAX_TOKEN_SECONDS:
        raise ValueError(f"seconds must be an integer from 1 to {MAX_TOKEN_SECONDS}, not {seconds!r}")
    id, secret = found.groups()
    name = base64.urlsafe_b64encode(model.encode()).decode().rstrip("=")
    about = f"{id}_{int(time.time()) + seconds}_{name}"
    signing_key = hmac.digest(hashlib.sha256(secret.encode()).digest(), b"manylabel token", "sha256")
    return f"mlt_{about}_{hmac.digest(signing_key, about.encode(), 'sha256').hex()}"
