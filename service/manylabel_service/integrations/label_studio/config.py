"""Labelling configuration of Label Studio: the questions, and the fields of a task that are text.

The XML comes from clients, so expat parses it without building a tree. The parser rejects document types, which could
define entities, and texts that are too long, too deeply nested or have too many elements.
"""

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from xml.parsers import expat

MAX_CONFIG_BYTES = 2**18
"""Maximum bytes of a configuration."""

MAX_CONFIG_DEPTH = 100
"""Maximum depth of nested tags."""

MAX_CONFIG_TAGS = 20_000
"""Maximum number of tags. More objects would cause a full garbage collection, which blocks all requests."""

_TEXTS = {"text", "hypertext", "paragraphs"}
_MEDIA = {"image", "audio", "audioplus", "video", "pdf", "timeseries"}
_USED = {"choices"} | _TEXTS | _MEDIA
_YES, _NO = {"yes", "true"}, {"no", "false"}
_FIELD = re.compile(r"\$([^\s$]+)")


class ConfigRefused(ValueError):
    """The configuration is not supported; the message is the end of a sentence."""


class Choice(NamedTuple):
    """Name of a choice in Label Studio's results, and its label."""

    value: str
    label: str


class Question(NamedTuple):
    """Tag `<Choices>`.

    With `multiple`, any number of choices can be true; otherwise exactly one is true. In a question of yes and no,
    `yes` is the choice that makes the label `name` true.
    """

    name: str
    to_name: str
    multiple: bool
    choices: tuple[Choice, ...]
    yes: str | None = None

    @property
    def labels(self) -> list[str]:
        """Labels of the question."""
        return [self.name] if self.yes is not None else [choice.label for choice in self.choices]


class LabelConfig(NamedTuple):
    """Questions, text fields and ignored fields of a configuration.

    `media` has the fields of images and the like, and of choices that each task defines. `paragraphs` has the fields of
    dialogues, with the key of the text in their turns.
    """

    questions: tuple[Question, ...]
    texts: frozenset[str]
    media: frozenset[str]
    paragraphs: tuple[tuple[str, str], ...] = ()

    @property
    def labels(self) -> list[str]:
        """Labels of all questions."""
        return [label for question in self.questions for label in question.labels]

    def among(self, labels: Container[str]) -> "LabelConfig":
        """Return the configuration with only these labels."""
        questions = []
        for question in self.questions:
            if question.yes is None:
                choices = tuple(choice for choice in question.choices if choice.label in labels)
                questions.append(question._replace(choices=choices))
            elif question.name in labels:
                questions.append(question)
        return self._replace(questions=tuple(questions))

    @property
    def is_complete(self) -> bool:
        """True if an annotation has complete labels: every question allows any number of labels."""
        return all(question.multiple for question in self.questions)


class _Tag(NamedTuple):
    name: str
    attributes: dict[str, str]
    choices: list[str]


@lru_cache(maxsize=16)
def read_config(text: str) -> LabelConfig:
    """Return the questions of a configuration. Raises ConfigRefused."""
    tags = _tags(text)
    asked = [tag for tag in tags if tag.name == "choices" and {"name", "toName"} <= tag.attributes.keys()]
    if not asked:
        raise ConfigRefused("has no <Choices> with a name and a toName")
    shared = Counter(choice for tag in asked for choice in set(tag.choices))
    questions = tuple(_question(tag, shared) for tag in asked)
    texts, media, paragraphs = set[str](), set[str](), dict[str, str]()
    for tag in tags:
        references = [_FIELD.fullmatch(tag.attributes.get(key, "")) for key in ("value", "valueList")]
        fields = [found[1] for found in references if found is not None]
        is_url = tag.attributes.get("valueType") == "url"
        if tag.name in _MEDIA or tag.name == "choices" or (tag.name in _TEXTS and is_url):
            media.update(fields)
        elif tag.name in _TEXTS:
            texts.update(fields)
            if tag.name == "paragraphs":
                paragraphs.update(dict.fromkeys(fields, tag.attributes.get("textKey", "text")))
    return LabelConfig(questions, frozenset(texts - media), frozenset(media), tuple(paragraphs.items()))


def _question(tag: _Tag, shared: Counter[str]) -> Question:
    """Return the question of a tag. A choice that another question also has becomes the label `name=choice`."""
    name, multiple = tag.attributes["name"], tag.attributes.get("choice") == "multiple"
    to_name = tag.attributes["toName"].split(",")[0].strip()
    said = {choice.strip().lower(): choice for choice in tag.choices}
    if not multiple and len(said) == 2 and said.keys() & _YES and said.keys() & _NO:
        (yes,) = said.keys() & _YES
        return Question(name, to_name, multiple, tuple(Choice(choice, name) for choice in tag.choices), said[yes])
    choices = [Choice(choice, f"{name}={choice}" if shared[choice] > 1 else choice) for choice in tag.choices]
    return Question(name, to_name, multiple, tuple(dict.fromkeys(choices)))


def _tags(text: str) -> list[_Tag]:
    """Return the used tags of a configuration; tags of choices are nested in the tag of their question."""
    raw = text.encode(errors="replace")
    if len(raw) > MAX_CONFIG_BYTES:
        raise ConfigRefused(f"has more than {MAX_CONFIG_BYTES:,} bytes")
    tags: list[_Tag] = []
    open_tags: list[_Tag | None] = []
    n_tags = 0

    def begin(name: str, attributes: dict[str, str]) -> None:
        nonlocal n_tags
        n_tags += 1
        if n_tags > MAX_CONFIG_TAGS:
            raise ConfigRefused(f"has more than {MAX_CONFIG_TAGS:,} tags")
        if len(open_tags) >= MAX_CONFIG_DEPTH:
            raise ConfigRefused(f"has tags nested more than {MAX_CONFIG_DEPTH} levels deep")
        name = name.lower()
        tag = _Tag(name, attributes, []) if name in _USED else None
        open_tags.append(tag)
        if tag is not None:
            tags.append(tag)
        elif (
            name == "choice"
            and (choice := attributes.get("alias") or attributes.get("value"))
            and (of := _last(open_tags)) is not None
        ):
            of.choices.append(choice)

    def refuse(*_: object) -> None:
        raise ConfigRefused("has a document type, which is not allowed because it could define entities")

    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda _: open_tags.pop()
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(raw, True)
    except expat.ExpatError as error:
        raise ConfigRefused(f"is not XML: {error}") from error
    return tags


def _last(open_tags: list[_Tag | None]) -> _Tag | None:
    return next((tag for tag in reversed(open_tags) if tag is not None and tag.name == "choices"), None)


def fields_of(data: Mapping[str, Any], config: LabelConfig, skipped: set[str]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a task that are features: all except images and other media.

    A dialogue becomes one text. Fields with lists of objects or of lists are not allowed in records; their names are
    added to `skipped`.
    """
    text_keys = dict(config.paragraphs)
    for name, value in data.items():
        if name in config.media:
            continue
        if isinstance(value, list) and any(isinstance(part, (dict, list)) for part in value):
            key = text_keys.get(name)
            turns = [part.get(key) if isinstance(part, dict) else None for part in value]
            if key is None or not all(isinstance(turn, str) for turn in turns):
                skipped.add(name)
                continue
            value = "\n".join(turns)  # type: ignore[arg-type]
        yield name, value
