"""Teachers on the command line: programs and language models."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import click

from manylabel_clients.command.declaring import Fields, Option
from manylabel_clients.http.transport.credentials import Secret
from manylabel_clients.integrations.teacher.endpoint import TIMEOUT_SECONDS, Label, LanguageModel
from manylabel_clients.integrations.teacher.program import Program

TEACHER_HELP = (
    "Program that reads an example as JSON from standard input and writes a JSON list of labels, or the address of an "
    "OpenAI-compatible API, such as http://localhost:11434/v1."
)


class TeacherFields(NamedTuple):
    """Options of a teacher, in addition to --teacher."""

    teacher_model: Annotated[str | None, Option(help="Name of the language model at the address.")] = None
    teacher_key_file: Annotated[
        Path | None, Option(exists=True, dir_okay=False, help="File with the key of the address.")
    ] = None
    teacher_timeout: Annotated[float, Option(help="Maximum seconds of a call of the teacher.")] = TIMEOUT_SECONDS
    instructions: Annotated[
        Path | None, Option(exists=True, dir_okay=False, help="File with the first sentences of the prompt.")
    ] = None


TeacherOptions = Annotated[TeacherFields, Fields(*TeacherFields._fields)]
DEFAULTS = TeacherFields()


def open_teacher(
    stack: ExitStack, teacher: str, options: TeacherFields, labels: Mapping[str, Label], unknown: bool = False
) -> Callable[[Any], list[str]]:
    """Return a teacher; the exit stack closes it. With `unknown`, a language model may use labels that are not
    listed."""
    if not teacher.startswith(("http://", "https://")):
        return Program(teacher, options.teacher_timeout)
    if options.teacher_model is None:
        raise click.UsageError("Give --teacher-model with an address.")
    more: dict[str, Any] = {}
    if options.instructions is not None:
        more["instructions"] = options.instructions.read_text().strip()
    key = None if options.teacher_key_file is None else Secret(options.teacher_key_file.read_text().strip())
    model = LanguageModel(
        teacher, options.teacher_model, labels, key, unknown=unknown, timeout_seconds=options.teacher_timeout, **more
    )
    return stack.enter_context(model)
