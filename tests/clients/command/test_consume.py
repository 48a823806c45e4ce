"""The options of `manylabel consume`: mistakes are named before anything is consumed."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.cases import for_each

from manylabel_clients.command.app import app
from manylabel_clients.command.failures import Failure

pytestmark = pytest.mark.kafka


@for_each(
    ("arguments", "message"),
    [
        (["t"], "Give MODEL, --model-field or --model-header"),
        (["t", "m", "--model-field", "tenant"], "MODEL must have {}"),
        (["t", "--model-field", "a", "--model-header", "b"], "not both"),
        (["t", "m", "--dead-letters", "t"], "--dead-letters: must differ from the topic to consume"),
        (["t", "m", "--metrics-port", "x"], "--metrics-port: must be HOST:PORT"),
        (["t", "m", "--batch-size", "0"], "--batch-size"),
    ],
)
def test_wrong_usage_is_named(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["consume", *arguments])
    assert done.exit_code == 2
    assert message in done.output


def test_options_of_labels_that_conflict_are_named() -> None:
    done = CliRunner().invoke(app, ["consume", "t", "m", "--labels", "a", "--tags", "b"])
    assert isinstance(done.exception, Failure)
    assert "tags cannot be combined" in str(done.exception)


@for_each(
    ("text", "message"),
    [
        (b"a=1\nsasl.password secret", "line 2: must be NAME=VALUE"),
        (b"# x\n\n=secret", "line 3: must be NAME=VALUE"),
        (b"group.id=secret", "line 1: remove group.id, because the command sets it"),
        (b"enable.auto.commit=secret", "line 1: remove enable.auto.commit, because the command sets it"),
        (b"sasl.password=secret\xff", "is not UTF-8"),
    ],
)
def test_a_wrong_file_of_settings_is_named_and_not_shown(text: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_bytes(text)
    done = CliRunner().invoke(app, ["consume", "t", "m", "--kafka-config", str(file)])
    assert isinstance(done.exception, Failure)
    assert message in str(done.exception)
    assert "secret" not in str(done.exception)
