"""Settings: documentation, precedence of flags, environment and file, and errors."""

from pathlib import Path

import pytest

from manylabel_service.settings import Settings, read_settings

FIELDS = Settings.model_fields


def test_the_help_shows_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        read_settings(["--help"])
    assert end.value.code == 0
    printed = " ".join(capsys.readouterr().out.split())
    for name, field in FIELDS.items():
        assert f"--{name.replace('_', '-')} " in printed
        first_words = " ".join((field.description or "").split()[:3])
        assert first_words in printed


def test_defaults() -> None:
    settings = read_settings([])
    assert (settings.host, settings.port, settings.durability) == ("127.0.0.1", 8000, "log")
    assert settings == Settings()


def test_flags_override_the_environment_and_that_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "manylabel.toml"
    file.write_text('port = 1\nhost = "file"\nmax_labels = 1\ndata_dir = "from file"\n')
    monkeypatch.setenv("MANYLABEL_PORT", "2")
    monkeypatch.setenv("MANYLABEL_HOST", "environment")

    settings = read_settings(["--config", str(file), "--port", "3"])

    assert (settings.port, settings.host, settings.max_labels) == (3, "environment", 1)
    assert settings.data_dir == Path("from file")
    assert settings.snapshot_retention_count == FIELDS["snapshot_retention_count"].default


def test_the_environment_may_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "manylabel.toml"
    file.write_text("port = 1\n")
    monkeypatch.setenv("MANYLABEL_CONFIG", str(file))
    assert read_settings([]).port == 1
    assert read_settings(["--port=4"]).port == 4


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--colour", "red"], "--colour"),
        (["--colour=red"], "--colour"),
        (["port"], "port"),
        (["--port"], "--port"),
        (["--port", "http"], "port: "),
        (["--port", "65536"], "port: "),
        (["--port", "-1"], "port"),
        (["--max-body-bytes", "0"], "max_body_bytes: must be greater than 0 (got '0')"),
        (["--workers", "2"], "workers: must be 1 with store = sqlite"),
        (["--job-runner", "rq"], "job_runner: must be local unless the store is a redis"),
        (["--trusted-proxies", "balancer"], "10.0.0.0/8"),
        (["--tls-cert-file", "x.pem"], "tls_key_file: must be set together with tls_cert_file"),
        (["--tls-key-file", "x.pem"], "tls_key_file: must be set together with tls_cert_file"),
        (["--redis-cert-file", "x.pem"], "redis_key_file: must be set together with redis_cert_file"),
        (["--redis-key-file", "x.pem"], "redis_key_file: must be set together with redis_cert_file"),
        (["--preload", "maybe"], "preload: must be a valid boolean (got 'maybe')"),
        (["--snapshot-every-seconds", "inf"], "snapshot_every_seconds: "),
        (["--snapshot-every-seconds", "nan"], "snapshot_every_seconds: "),
        (["--durability", "disk"], "'log' or 'fsync'"),
        (["--log-level", "verbose"], "'debug'"),
        (["--config", "/nowhere/manylabel.toml"], "/nowhere/manylabel.toml"),
    ],
    ids=" ".join,
)
def test_a_wrong_flag_is_refused_by_name(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        read_settings(arguments)
    assert end.value.code == 2
    printed = capsys.readouterr().err
    assert told in printed.splitlines()[-1]
    assert "Traceback" not in printed


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("prot = 1\n", "prot: unknown setting; did you mean port?"),
        ("xyzzy = 1\n", "xyzzy: unknown setting\n"),
        ("port = one\n", "cannot read"),
        ('port = "many"\n', "port: "),
    ],
)
def test_a_wrong_file_is_refused(content: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "manylabel.toml"
    file.write_text(content)
    with pytest.raises(SystemExit) as end:
        read_settings(["--config", str(file)])
    assert end.value.code == 2
    assert told in capsys.readouterr().err


def test_a_wrong_environment_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MANYLABEL_SNAPSHOT_RETENTION_COUNT", "none")
    with pytest.raises(SystemExit) as end:
        read_settings([])
    assert end.value.code == 2
    assert "snapshot_retention_count: " in capsys.readouterr().err
