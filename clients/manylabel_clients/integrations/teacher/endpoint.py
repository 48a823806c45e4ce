"""Language models as teachers, behind an OpenAI-compatible endpoint, with structured output."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import httpx2

from manylabel_clients.http.errors import ManyLabelError
from manylabel_clients.http.transport.credentials import Secret
from manylabel_clients.integrations.teacher.loop import TeacherBusy, TeacherRefuses

TIMEOUT_SECONDS = 60.0
MAX_ENUM = 500
"""Maximum number of labels in the schema of the output. Servers refuse longer lists; with more labels, only this module
checks the answers."""
MAX_RESPONSE_BYTES = 2**20
BUSY = (408, 409, 425, 429, 500, 502, 503, 504, 529)
"""Statuses after which a request may succeed later."""
INSTRUCTIONS = (
    "Assign all labels that fit the document, and no others; none is allowed. Answer with the names of the labels only."
)
_FENCE = re.compile(r"\A\s*```(?:json)?\s*(.*?)\s*```\s*\Z", re.DOTALL)


class TeacherUnusable(ManyLabelError):
    """The teacher cannot answer any example, for example because the key or the address is wrong."""


class Label(NamedTuple):
    """Title and description of a label, for the language model."""

    title: str | None = None
    description: str | None = None


class LanguageModel:
    """Language model behind an OpenAI-compatible endpoint, as the teacher of `with_teacher`.

    Parameters
    ----------
    url : str
        Address of the API, such as ``http://localhost:11434/v1``, or of its chat completions.
    model : str
        Name of the language model.
    labels : mapping of str to Label
        Labels by name. The language model reads their titles (or names, if there is no title) and descriptions.
    key : Secret, optional
        Bearer token.
    unknown : bool
        Whether the language model may use other labels.
    instructions : str
        First sentences of the prompt.
    timeout_seconds : float
        Maximum seconds of a request.
    """

    def __init__(
        self,
        url: str,
        model: str,
        labels: Mapping[str, Label],
        key: Secret | None = None,
        *,
        unknown: bool = False,
        instructions: str = INSTRUCTIONS,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._url = url if url.rstrip("/").endswith("/completions") else f"{url.rstrip('/')}/chat/completions"
        self._model, self._unknown = model, unknown
        titles = [label.title or name for name, label in labels.items()]
        shown = [
            title if titles.count(title) == 1 and title not in labels.keys() - {name} else name
            for name, title in zip(labels, titles, strict=True)
        ]
        self._names = dict(zip(shown, labels, strict=True))
        self._prompt = _prompt(instructions, dict(zip(shown, labels.values(), strict=True)), unknown)
        headers = {} if key is None else {"Authorization": f"Bearer {key.text}"}
        self._http = httpx2.Client(headers=headers, timeout=timeout_seconds)

    def __enter__(self) -> LanguageModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __call__(self, x: Any) -> list[str]:
        """Return the labels of an example.

        Raises
        ------
        TeacherBusy
            For a rate limit, an overload or a timeout.
        TeacherRefuses
            If a content filter refuses the example.
        TeacherUnusable
            If the endpoint refuses all requests.
        ValueError
            If the response is not a list of labels.
        """
        try:
            response = self._http.post(self._url, json=self._body(x))
        except httpx2.TransportError as error:
            raise TeacherBusy(f"no response from {self._url}: {error or type(error).__name__}") from error
        if response.status_code != 200:
            raise _problem(self._url, response)
        found = _labels(response)
        return list(dict.fromkeys(self._names.get(label, label) for label in found))

    def _body(self, x: Any) -> dict[str, Any]:
        item: dict[str, Any] = {"type": "string"}
        if not self._unknown and len(self._names) <= MAX_ENUM:
            item["enum"] = list(self._names)
        schema = {
            "type": "object",
            "properties": {"labels": {"type": "array", "items": item}},
            "required": ["labels"],
            "additionalProperties": False,
        }
        text = x if isinstance(x, str) else json.dumps(x, ensure_ascii=False)
        return {
            "model": self._model,
            "temperature": 0,
            "messages": [{"role": "system", "content": self._prompt}, {"role": "user", "content": text}],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "labels", "strict": True, "schema": schema},
            },
        }


def _prompt(instructions: str, labels: Mapping[str, Label], unknown: bool) -> str:
    listed = [f"- {name}" + (f": {one.description}" if one.description else "") for name, one in labels.items()]
    also = "\nIf none of them fits, you may add others." if unknown else ""
    return "\n".join([instructions, "", "Labels:", *listed]) + also


def _problem(url: str, response: httpx2.Response) -> Exception:
    """Return the error of a response that is not a success."""
    status, text = response.status_code, response.text[:500]
    if status in BUSY:
        return TeacherBusy(f"status {status} from {url}", _retry_after(response.headers.get("retry-after")))
    if status in (400, 422) and "content" in text and ("filter" in text or "policy" in text):
        return TeacherRefuses(f"content filter: {text}")
    if status in (400, 413, 422):
        return TeacherRefuses(f"status {status}: {text}")
    return TeacherUnusable(f"{url} responds with status {status}: {text}")


def _retry_after(value: str | None) -> float | None:
    """Return the seconds of a header Retry-After; None without a valid one."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def _labels(response: httpx2.Response) -> list[str]:
    """Return the labels of a completion; raises ValueError or TeacherRefuses."""
    if len(response.content) > MAX_RESPONSE_BYTES:
        raise ValueError(f"the response has more than {MAX_RESPONSE_BYTES:,} bytes")
    try:
        choice = response.json()["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        refusal, content = message.get("refusal"), message.get("content")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"the response is not a chat completion: {response.text[:200]!r}") from error
    if reason == "content_filter" or refusal:
        raise TeacherRefuses(str(refusal or "content filter"))
    if not isinstance(content, str):
        raise ValueError("the response has no content")
    return parsed_labels(content)


def parsed_labels(text: str) -> list[str]:
    """Return the labels in a text of JSON: a list, or an object with the list `labels`. Raises ValueError."""
    if (fenced := _FENCE.match(text)) is not None:
        text = fenced[1]
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {text[:200]!r}") from error
    if isinstance(found, dict):
        found = found.get("labels")
    if not isinstance(found, list) or not all(isinstance(label, str) for label in found):
        raise ValueError(f"not a list of labels: {text[:200]!r}")
    return found
