"""Checks of answers."""

from typing import Any


def ok(answer: Any, status: int = 200) -> Any:
    """Return the document of an answer with this status."""
    assert answer.status_code == status, answer.text
    return answer.json()


def pointer(answer: Any) -> str:
    """Return the place that an answer 422 names first."""
    found: str = ok(answer, 422)["errors"][0]["pointer"]
    assert answer.json()["code"] == "invalid_request"
    return found
