"""Loop that shows items to a person in a terminal, and asks for an answer to each."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import click

from manylabel_clients.command.failures import Failure
from manylabel_clients.command.output.tables import print_text
from manylabel_clients.http.errors import Conflict, Expired, Invalid, NotFound

T = TypeVar("T")
A = TypeVar("A")


class OneByOne(ABC, Generic[T, A]):
    """Loop over items of one kind, such as stored predictions, whose answers are sent in batches.

    ``s`` skips an item, ``u`` goes back to the one before, if its answer was not sent yet, ``q`` sends and quits.
    """

    prompt: str
    """Prompt."""

    def __init__(self) -> None:
        self.n_sent = 0

    @abstractmethod
    def batch(self) -> Sequence[T]:
        """Return the next items, whose answers are sent together; an empty list at the end."""

    @abstractmethod
    def done(self, batch: Sequence[T]) -> None:
        """Note that the person has seen all items of a batch."""

    @abstractmethod
    def described(self, item: T) -> Iterator[str]:
        """Yield the lines that show an item."""

    @abstractmethod
    def parsed(self, typed: str, item: T) -> A:
        """Return the answer that was typed; raise Failure if it is invalid."""

    @abstractmethod
    def send(self, item: T, answer: A) -> None:
        """Send an answer."""

    def ask_all(self) -> bool:
        """Ask until no items are left, or the person quits; return whether items ran out."""
        while batch := self.batch():
            answers, goes_on = self._ask(batch)
            self._send(batch, answers)
            if not goes_on:
                return False
        return True

    def _ask(self, batch: Sequence[T]) -> tuple[dict[int, A], bool]:
        """Return the answers by index of the item, and whether the person continues."""
        answers: dict[int, A] = {}
        place = 0
        while place < len(batch):
            shown = batch[place]
            click.echo()
            for line in self.described(shown):
                print_text("".join(char if char.isprintable() or char == "\t" else " " for char in line))
            typed = _read(self.prompt)
            if typed is None or typed == "q":
                return answers, False
            if typed == "u":
                if not place:
                    click.echo("the earlier ones were sent")
                else:
                    place -= 1
                    answers.pop(place, None)
                continue
            if typed == "s":
                answers.pop(place, None)
            else:
                try:
                    answers[place] = self.parsed(typed, shown)
                except Failure as error:
                    click.echo(str(error))
                    continue
            place += 1
        self.done(batch)
        return answers, True

    def _send(self, batch: Sequence[T], answers: dict[int, A]) -> None:
        """Send the answers one by one, so that an item that another client has answered does not block the others."""
        for place, answer in answers.items():
            try:
                self.send(batch[place], answer)
            except (Conflict, Expired, Invalid, NotFound) as error:
                click.echo(f"not learnt: {error}")
            else:
                self.n_sent += 1


def _read(prompt: str) -> str | None:
    """Return the next typed line; None at the end of the input."""
    click.echo(prompt, nl=False)
    sys.stdout.flush()
    line = sys.stdin.readline()
    return line.strip() if line else None
