"""Bodies of predict, update and predict-update: one item, or a batch."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from manylabel_service.api.schemas import Batch
from manylabel_service.api.web.problems import Problem, batch_too_large, invalid
from manylabel_service.api.web.validation import Path, check_known, validated
from manylabel_service.errors import InvalidExample
from manylabel_service.hosting.selection import MAX_NAMES, MAX_TOP, PREFIX, Names, Selection
from manylabel_service.online.spec.spec import MAX_NAME_BYTES
from manylabel_service.slices import in_slices

T = TypeVar("T")


class Items(NamedTuple, Generic[T]):
    """Converted items of a body. `batch` is true if the body is a list of items; then the response is a list, too."""

    values: list[T]
    batch: bool

    def at(self, index: int) -> Path:
        """Return the path of an item in the body."""
        return ("examples", index) if self.batch else ()

    def problem(self, error: InvalidExample) -> Problem:
        """Return the problem for an item that does not fit the model."""
        return invalid((*self.at(error.index), *error.path), error.detail)


async def to_items(
    document: Any, convert: Callable[[Any, Path], T], described: type[Batch], max_examples: int
) -> Items[T]:
    """Return the converted items of a body, with their paths; `described` has the fields of a batch. Raises a
    Problem."""
    if isinstance(document, list):
        raise invalid((), 'must be an object; a batch is {"examples": [...]}')
    if not (isinstance(document, dict) and "examples" in document):
        return Items([convert(document, ())], batch=False)
    check_known(document, ())
    examples = validated(Batch, document, described={(): described}).examples
    if len(examples) > max_examples:
        raise batch_too_large(f"the batch has {len(examples):,} examples; at most {max_examples:,} are allowed")
    values = [convert(item, ("examples", index)) async for index, item in in_slices(enumerate(examples))]
    return Items(values, batch=True)


def take_flag(document: Any, name: str) -> bool:
    """Remove a boolean field from a body and return it, false by default; raises a Problem invalid_request."""
    flag = document.pop(name, False) if isinstance(document, dict) else False
    if not isinstance(flag, bool):
        raise invalid((name,), "must be true or false")
    return flag


_SELECTING = frozenset({"top", "only", "except"})


def take_selection(document: Any, max_scores: int) -> Selection:
    """Pop `top`, `only` and `except` from a body; raises a Problem invalid_request."""
    if not (isinstance(document, dict) and _SELECTING & document.keys()):
        return Selection(max_scores)
    top = document.pop("top", None)
    if top is not None and (type(top) is not int or not 1 <= top <= MAX_TOP):
        raise invalid(("top",), f"must be an integer from 1 to {MAX_TOP}, or null")
    only, unwanted = (_take_names(document, name) for name in ("only", "except"))
    return Selection(max_scores if top is None else top, top is not None, only, unwanted)


def _take_names(document: dict[str, Any], field: str) -> Names | None:
    given = document.pop(field, None)
    if given is None:
        return None
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_NAMES:
        raise invalid((field,), f"must be a list of 1 to {MAX_NAMES} names of labels, or prefixes that end in {PREFIX}")
    for place, name in enumerate(given):
        if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME_BYTES + len(PREFIX):
            raise invalid((field, place), f"must be a name of a label, or a prefix that ends in {PREFIX}")
    return Names.of(given)


def take_count(document: Any, name: str, most: int) -> int:
    """Remove a count from a body and return it, 0 by default; raises a Problem invalid_request."""
    count = document.pop(name, 0) if isinstance(document, dict) else 0
    if type(count) is not int or not 0 <= count <= most:
        raise invalid((name,), f"must be an integer from 0 to {most}")
    return count
