"""Conversion of pydantic's validation errors to messages and pointers of this API."""

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from manylabel_core.records.bounds import MAX_NAME_BYTES
from manylabel_service import names
from manylabel_service.api.web.problems import Problem, invalid, pointer, sentence

Path = tuple[str | int, ...]
M = TypeVar("M", bound=BaseModel)

MAX_ERRORS = 10
"""Maximum number of invalid fields in one response."""
MAX_ERRORS_LOOKED_AT = 1_000
"""Number of errors above which a body is not examined further, because describing errors takes longer than finding
them."""

MAX_FIELDS = 100
"""Maximum number of fields of an object with known fields; no such object has as many."""

_NO_OBJECT = ("dict_type", "is_instance_of", "model_type", "model_attributes_type")

_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is not a known field",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "int_parsing": "must be an integer",
    "float_parsing": "must be a number",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    **dict.fromkeys(_NO_OBJECT, "must be an object"),
    "greater_than": "must be > {gt}",
    "greater_than_equal": "must be >= {ge}",
    "less_than": "must be < {lt}",
    "less_than_equal": "must be <= {le}",
    "too_short": "must have at least {min_length} element",
    "string_too_short": "must have 1 to 256 bytes",
    "string_too_long": "must have 1 to 256 bytes",
    "string_pattern_mismatch": "must match {pattern}",
    "too_long": "must have at most {max_length} elements",
    "literal_error": "must be {expected}",
    "union_tag_invalid": "must have one of {expected_tags} in {discriminator}",
    "union_tag_not_found": "must have {discriminator}",
}


def check_known(document: Any, at: Path) -> None:
    """Reject an object with more fields than any model has, because pydantic would describe each field."""
    if isinstance(document, dict) and len(document) > MAX_FIELDS:
        raise invalid(at, f"must have at most {MAX_FIELDS} fields, has {len(document):,}")


def check_all_known(document: Any, at: Path) -> None:
    """Check an object and its nested objects like `check_known`, except objects whose names the client chooses."""
    check_known(document, at)
    if isinstance(document, dict):
        for name, value in document.items():
            check_all_known(value, (*at, name))


def validated(
    model: type[M], document: Any, at: Path = (), path_of: Callable[[Path], Path] = tuple, described: Any = None
) -> M:
    """Return a value of JSON as a model; raises a Problem that describes the errors as `invalid_body`."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise invalid_body(error, at, path_of, described or {(): model}) from error


def invalid_body(
    error: ValidationError,
    at: Path,
    path_of: Callable[[Path], Path],
    described: Mapping[Path, type[BaseModel]],
) -> Problem:
    """Return the problem for a validation error of a model.

    Parameters
    ----------
    error : error of the model.
    at : path of the validated value in the body.
    path_of : converts pydantic's location, which also has the branches of unions, to a path.
    described : models by the path of an object, for the list of known fields in errors; nested models are found
        automatically.
    """
    if error.error_count() > MAX_ERRORS_LOOKED_AT:
        detail = f"has {error.error_count():,} errors"
        return Problem("invalid_request", sentence(at, detail), [{"pointer": pointer(at), "detail": detail}])
    found = list(islice(_errors(error), MAX_ERRORS))
    places = [((*at, *path), _words_at(path, each, described)) for path, each in ((path_of(p), e) for p, e in found)]
    summary = "; ".join(sentence(path, detail) for path, detail in places)
    return Problem("invalid_request", summary, [{"pointer": pointer(p), "detail": d} for p, d in places])


def _errors(error: ValidationError, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the errors with their locations, including those of nested validators."""
    for each in error.errors(include_url=False):
        location = (*at, *each["loc"])
        inner = each.get("ctx", {}).get("error")
        if isinstance(inner, ValidationError):
            yield from _errors(inner, location)
        else:
            yield location, each


def _words_at(path: Path, error: Any, described: Mapping[Path, type[BaseModel]]) -> str:
    """Return the message of an error, with the known fields if the value is not an object or has an unknown field."""
    if error["type"] not in _NO_OBJECT or error["input"] is None:
        return words(error, _known(described, path[:-1]))
    fields = _known(described, path)
    return words(error) + (f" with {', '.join(fields)}" if fields else "")


def _known(described: Mapping[Path, type[BaseModel]], path: Path) -> list[str] | None:
    """Return the fields of the object at a path; None if the kind of object is ambiguous."""
    begin = next((path[:n] for n in range(len(path), -1, -1) if path[:n] in described), None)
    if begin is None:
        return None
    model = described[begin]
    for part in path[len(begin) :]:
        if isinstance(part, int):  # a list whose elements are of one kind
            continue
        field = model.model_fields.get(part)
        inside = [] if field is None else list(_models_in(field.annotation))
        if len(inside) != 1:
            return None
        model = inside[0]
    return [field.alias or name for name, field in model.model_fields.items()]


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def words(error: Any, known: Collection[str] | None = None) -> str:
    """Return the message of a pydantic error, in the wording of this API."""
    if error["type"] == "extra_forbidden" and known is not None:
        return f"is unknown; known fields are {', '.join(known)}"
    context = error.get("ctx", {})
    if error["type"] == "string_pattern_mismatch" and context["pattern"] == names.PATTERN:
        return names.ALLOWED
    if error["type"] == "string_too_long" and context["max_length"] != MAX_NAME_BYTES:
        return f"must have at most {context['max_length']:,} characters"
    template: str | None = _WORDS.get(error["type"])
    if template is None:
        message: str = error["msg"]
        return message.removeprefix("Value error, ")
    text = template.format(**context)
    is_null = error["type"].endswith("_type") and error.get("input", ...) is None
    return f"{text}, not null: omit it if it is unknown" if is_null else text
