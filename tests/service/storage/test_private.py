"""Only the user of the process can read the data directory, whatever its earlier permissions and the umask."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from manylabel_service.storage import SQLiteStore
from manylabel_service.storage.private import private_directory


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_all_files_of_a_new_store_are_private_without_a_warning(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    with structlog.testing.capture_logs() as lines:
        store = SQLiteStore(data)
        await store.open()
        modes = {path.name: mode(path) for path in [data, *data.iterdir()]}
        await store.close()
    files = {"lock", "reserve", "manylabel.sqlite3", "manylabel.sqlite3-wal", "manylabel.sqlite3-shm"}
    assert modes == dict.fromkeys(files, 0o600) | dict.fromkeys(("data", "blobs"), 0o700)
    assert lines == [], "a warning shows that a directory was open to others for a moment"


async def test_a_directory_that_others_can_read_is_made_private_with_a_warning(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for folder in (data, data / "blobs"):
        folder.mkdir(mode=0o755)
    (data / "manylabel.sqlite3").touch(mode=0o644)
    with structlog.testing.capture_logs() as lines:
        store = SQLiteStore(data)
        await store.open()
        await store.close()
    assert {mode(data / name) for name in ("", "blobs")} == {0o700}
    assert mode(data / "manylabel.sqlite3") == 0o600
    told = {(line["event"], line["log_level"], line["path"], line["mode"]) for line in lines}
    assert told == {("made_private", "warning", str(data / name), "0755") for name in ("", "blobs")} | {
        ("made_private", "warning", str(data / "manylabel.sqlite3"), "0644")
    }


@pytest.mark.parametrize("bits", [0o750, 0o2777])
def test_a_directory_of_another_user_is_left_with_a_warning(
    tmp_path: Path, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(bits)
    monkeypatch.setattr(os, "geteuid", lambda: volume.stat().st_uid + 1)
    with structlog.testing.capture_logs() as lines:
        private_directory(volume)
    assert mode(volume) == bits
    assert [(line["event"], line["log_level"]) for line in lines] == [("open_to_other_users", "warning")]


def test_a_file_system_without_modes_gets_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "share").mkdir(mode=0o755)

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "chmod", refuse)
    with structlog.testing.capture_logs() as lines:
        private_directory(tmp_path / "share")
    assert [line["event"] for line in lines] == ["open_to_other_users"]
