"""Vector fields of records, as views of a dataset."""

from collections.abc import Container


def view_of(field: str, taken: Container[str]) -> str:
    """Return the name of the view for the vectors of a field: the name of the field, unless another view has it."""
    name = field
    while name in taken:
        name = f"{name} (vector)"
    return name


def names_of(field: str, length: int) -> tuple[str, ...]:
    """Return the names of the values of a vector as features, for trainers without views."""
    return tuple(f"{field}[{place}]" for place in range(length))
