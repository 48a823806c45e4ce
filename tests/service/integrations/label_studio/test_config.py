"""Labeling configurations of Label Studio: their questions, and hostile ones."""

import pytest
from tests.support.cases import for_each

from manylabel_service.integrations.label_studio.config import (
    MAX_CONFIG_BYTES,
    MAX_CONFIG_DEPTH,
    MAX_CONFIG_TAGS,
    ConfigRefused,
    fields_of,
    read_config,
)

TOPICS = """<View>
  <Header value="Topics of $title"/>
  <Text name="title" value="$title"/><Text name="body" value="$body" valueType="text"/>
  <Text name="page" value="$page" valueType="url"/><Image name="picture" value="$photo"/>
  <Choices name="topic" toName="title" choice="multiple">
    <View><Choice value="cats"/><Choice value="dogs" alias="hounds"/></View><Choice value="cats"/>
  </Choices>
</View>"""


def test_choices_are_labels_and_shown_fields_are_texts() -> None:
    config = read_config(TOPICS)
    assert config.labels == ["cats", "hounds"]
    assert config.is_complete
    assert config.texts == {"title", "body"}
    assert config.media == {"page", "photo"}


def test_dialogues_are_texts_and_lists_of_objects_are_skipped() -> None:
    config = read_config(
        '<View><Paragraphs name="p" value="$talk" nameKey="who" textKey="said"/><Paragraphs name="q" value="$chat"/>'
        '<Choices name="c" toName="p" value="$options"/></View>'
    )
    skipped = set[str]()
    talk = [{"who": "Ada", "said": "hello"}, {"who": "Bo", "said": "goodbye"}]
    data = {"talk": talk, "chat": talk, "options": [{"value": "a"}], "boxes": [{"x": 1}], "nested": [[1]], "n": [1, 2]}
    assert dict(fields_of(data, config, skipped)) == {"talk": "hello\ngoodbye", "n": [1, 2]}
    assert skipped == {"chat", "boxes", "nested"}
    assert dict(fields_of({"talk": "plain", "chat": [{"text": "hi"}]}, config, skipped)) == {
        "talk": "plain",
        "chat": "hi",
    }


@for_each("choice", ['choice="single"', 'choice="single-radio"', ""])
@for_each(("yes", "no"), [("Yes", "No"), ("true", "false"), ("no ", "YES")])
def test_a_yes_or_no_question_is_one_label(choice: str, yes: str, no: str) -> None:
    config = read_config(
        f'<View><Choices name="spam" toName="t" {choice}><Choice value="{yes}"/><Choice value="{no}"/></Choices></View>'
    )
    (question,) = config.questions
    assert config.labels == ["spam"]
    assert question.yes is not None
    assert question.yes.lower() in ("yes", "true")
    assert not config.is_complete


def test_choices_of_several_questions_have_different_names() -> None:
    config = read_config(
        '<View><Choices name="a" toName="t"><Choice value="good"/><Choice value="fair"/></Choices>'
        '<Choices name="b" toName="t" choice="multiple"><Choice value="good"/><Choice value="new"/></Choices></View>'
    )
    assert config.labels == ["a=good", "fair", "b=good", "new"]
    assert not config.is_complete


BOMB = '<!DOCTYPE v [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><View>&b;</View>'


@for_each(
    ("text", "why"),
    [
        (BOMB, "document type"),
        ('<!DOCTYPE v SYSTEM "file:///etc/passwd"><View/>', "document type"),
        ('<!DOCTYPE v [<!ENTITY x SYSTEM "http://127.0.0.1/">]><View>&x;</View>', "document type"),
        ("<View>&x;</View>", "not XML"),
        ("<View>", "not XML"),
        ("", "not XML"),
        ("<View/>\x00", "not XML"),
        ("<View/>" * 2, "not XML"),
        ("<View>" * (MAX_CONFIG_DEPTH + 1), "levels deep"),
        ("<View>" + "<a/>" * MAX_CONFIG_TAGS, "20,000 tags"),
        ("<View>" + " " * MAX_CONFIG_BYTES + "</View>", "bytes"),
        ('<View><Text name="t" value="$t"/></View>', "no <Choices>"),
        ("<View><Choices><Choice value='a'/></Choices></View>", "no <Choices>"),
        ("<View>\ud800</View>", "no <Choices>"),
    ],
)
def test_hostile_configurations_are_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigRefused, match=why):
        read_config(text)
