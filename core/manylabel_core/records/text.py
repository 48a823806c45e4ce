"""Text options of a model, and the tokens of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from manylabel_core.records import tokeniser
from manylabel_core.records.bounds import MAX_NAME_BYTES

MAX_NGRAM = 5
MAX_PART = 10
MAX_FIELDS = 1_000
MAX_STOP_WORDS = 1_000
MAX_MIN_LENGTH = 64
LONGER_THAN = 200


@dataclass(frozen=True)
class TextSettings:
    """Text options: which strings of a record are texts, and how texts are tokenised.

    Omitted settings are filled in, so stored settings tokenise a text identically after a change of defaults.

    Attributes
    ----------
    fields : list of str, optional
        Names of the fields that are text; a field of an object inside the record is named with dots (``author.bio``).
        None: fields with a string of more than `longer_than` characters.
    longer_than : int, optional
        A string of more characters is a text in any field. None: 200 without `fields`, otherwise no limit.
    ngrams : int or pair of int, default=(1, 1)
        Minimum and maximum number of consecutive words that make a token, from 1 to 5. An int n means (1, n).
    chars : int or pair of int, optional
        Minimum and maximum number of consecutive characters of a word that make tokens in addition to the word, from 2
        to 10. With 3, "words" has the tokens ``wor*``, ``*ord*`` and ``*rds``. An int n means (n, n). None: words only.
    stop_words : list of str, default=()
        Words omitted before runs of words are formed; they are tokenised like texts.
    min_length : int, default=2
        Shorter words are omitted, except emoji.
    tokeniser : int, default=1
        Version of the tokeniser, which defines words.

    Raises
    ------
    ValueError
        If a setting is not allowed; the message begins with its name.

    Examples
    --------
    >>> settings = TextSettings(fields=["title"], ngrams=2, stop_words=["The"])
    >>> TextReader(settings).tokens("The Cat in a Hat", lambda count: None)
    ['cat', 'in', 'hat', 'cat in', 'in hat']
    >>> settings.to_json()["stop_words"]
    ['the']
    >>> TextSettings.from_json(settings.to_json()) == settings
    True
    """

    fields: tuple[str, ...] | None = None
    longer_than: int | None = None
    ngrams: tuple[int, int] = (1, 1)
    chars: tuple[int, int] | None = None
    stop_words: tuple[str, ...] = ()
    min_length: int = 2
    tokeniser: int = tokeniser.VERSION

    def __post_init__(self) -> None:
        resolved: dict[str, Any] = {"ngrams": _span("ngrams", self.ngrams, 1, MAX_NGRAM, from_one=True)}
        if self.fields is not None:
            resolved["fields"] = tuple(dict.fromkeys(_names("fields", self.fields, MAX_FIELDS)))
        elif self.longer_than is None:
            resolved["longer_than"] = LONGER_THAN
        if self.longer_than is not None:
            _check_int("longer_than", self.longer_than, 0, 2**31 - 1)
        if self.chars is not None:
            resolved["chars"] = _span("chars", self.chars, 2, MAX_PART, from_one=False)
        stop_words = _names("stop_words", self.stop_words, MAX_STOP_WORDS)
        resolved["stop_words"] = tuple(sorted({word for text in stop_words for word in tokeniser.words(text)}))
        _check_int("min_length", self.min_length, 1, MAX_MIN_LENGTH)
        if type(self.tokeniser) is not int or self.tokeniser != tokeniser.VERSION:
            raise ValueError(f"tokeniser must be {tokeniser.VERSION}, the only version")
        for name, value in resolved.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the settings of a JSON object; raise ValueError if one is not allowed."""
        if not isinstance(document, Mapping):
            raise ValueError("text must be an object")
        names = [field.name for field in fields(cls)]
        for name in document:
            if name not in names:
                raise ValueError(f"{name} is not a setting of text; allowed are {', '.join(names)}")
        return cls(**document)

    @classmethod
    def of(cls, given: TextSettings | Mapping[str, Any] | Sequence[str] | str | None) -> TextSettings | None:
        """Return text options from options, a JSON object, or field names; None stays None. Raises ValueError."""
        if given is None or isinstance(given, TextSettings):
            return given
        if isinstance(given, Mapping):
            return cls.from_json(given)
        return cls(fields=(given,) if isinstance(given, str) else tuple(given))

    def to_json(self) -> dict[str, Any]:
        """Return every setting as plain JSON, for `from_json`."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


class TextReader:
    """Tokeniser of texts."""

    def __init__(self, settings: TextSettings) -> None:
        self._min_length = settings.min_length
        self._stop_words = frozenset(settings.stop_words)
        self._runs = range(settings.ngrams[0], settings.ngrams[1] + 1)
        self._parts = range(settings.chars[0], settings.chars[1] + 1) if settings.chars else range(0)
        self._words_alone = settings.ngrams == (1, 1) and not self._parts

    def tokens(self, text: str, spend: Callable[[int], None]) -> list[str]:
        """Return the tokens of a text with repetitions: words, then longer runs of words, then parts of words.

        The text must be valid Unicode. `spend` is called with the number of tokens before they are made, and raises an
        error if there are too many.
        """
        least = self._min_length
        words = tokeniser.words(text)
        if text.isascii():
            words = [word for word in words if len(word) >= least]
        else:
            words = [word for word in words if len(word) >= least or tokeniser.is_emoji(word)]
        if self._stop_words:
            words = [word for word in words if word not in self._stop_words]
        if self._words_alone:
            spend(len(words))
            return words
        n_runs = sum(max(0, len(words) + 1 - n) for n in self._runs)
        spend(n_runs + sum(max(0, len(word) + 1 - n) for n in self._parts for word in words))
        tokens = [run for n in self._runs for run in _runs(words, n)]
        for word in words:
            tokens += _parts(word, self._parts)
        return tokens


def _runs(words: list[str], n: int) -> Iterable[str]:
    if n == 1:
        return words
    return (" ".join(words[i : i + n]) for i in range(len(words) + 1 - n))


def _parts(word: str, lengths: Iterable[int]) -> Iterable[str]:
    """Return the parts of a word: ``wor*`` at its start, ``*ord*`` inside, ``*rds`` at its end."""
    for n in lengths:
        last = len(word) - n
        if last > 0:  # the whole word is also a token
            yield f"{word[:n]}*"
            for i in range(1, last):
                yield f"*{word[i : i + n]}*"
            yield f"*{word[last:]}"


def _span(name: str, given: Any, least: int, most: int, *, from_one: bool) -> tuple[int, int]:
    pair = (1 if from_one else given, given) if type(given) is int else given
    wanted = f"{name} must be a number from {least} to {most}, or two such numbers, the smaller first"
    if not isinstance(pair, list | tuple) or len(pair) != 2 or any(type(n) is not int for n in pair):
        raise ValueError(wanted)
    first, last = pair
    if not least <= first <= last <= most:
        raise ValueError(wanted)
    return first, last


def _names(name: str, given: Any, most: int) -> Iterable[str]:
    if not isinstance(given, list | tuple) or len(given) > most or not all(isinstance(one, str) for one in given):
        raise ValueError(f"{name} must be a list of at most {most:,} strings")
    for one in given:
        try:
            size_bytes = len(one.encode())
        except UnicodeEncodeError as error:
            raise ValueError(f"{name} must be valid Unicode") from error
        if not 1 <= size_bytes <= MAX_NAME_BYTES:
            raise ValueError(f"{name} must have strings of 1 to {MAX_NAME_BYTES} bytes")
    return given


def _check_int(name: str, given: Any, least: int, most: int) -> None:
    if type(given) is not int or not least <= given <= most:
        raise ValueError(f"{name} must be a number from {least:,} to {most:,}")
