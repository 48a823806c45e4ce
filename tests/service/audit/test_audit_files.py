"""Files of the audit: lines stay whole and in order under concurrent writing, rotation, reading and disk faults."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.cases import for_each

from manylabel_service.audit.files import AuditFiles, Cursor, read_cursor

ALL = 10**9


def lines_of(numbers: range) -> bytes:
    return b"".join(json.dumps({"n": n}).encode() + b"\n" for n in numbers)


def read_all_back(files: AuditFiles, limit: int, max_bytes: int = ALL) -> list[int]:
    found: list[int] = []
    before = None
    while True:
        page = files.read_back(before, lambda line: True, limit, max_bytes)
        found += [line["n"] for line in page.lines]
        if (before := page.before) is None:
            return found


def read_all_on(files: AuditFiles, limit: int, after: Cursor, max_bytes: int = ALL) -> list[int]:
    found: list[int] = []
    while True:
        page = files.read_on(after, lambda line: True, limit, max_bytes)
        found += [line["n"] for line in page.lines]
        if page.after == after:
            return found
        after = page.after


@pytest.fixture
def rotated(tmp_path: Path) -> AuditFiles:
    """Files after 100 lines; the oldest lines are deleted."""
    files = AuditFiles(tmp_path / "audit.jsonl", max_bytes=300, kept=2)
    for n in range(0, 100, 5):
        files.append(lines_of(range(n, n + 5)))
    return files


@pytest.mark.parametrize("limit", [1, 3, 1000])
@pytest.mark.parametrize("max_bytes", [1, 25, ALL])
def test_pages_in_either_direction_have_every_line_once(rotated: AuditFiles, limit: int, max_bytes: int) -> None:
    back = read_all_back(rotated, limit, max_bytes)
    assert back == sorted(back, reverse=True)
    assert back[0] == 99
    assert 50 < len(back) < 100, "the oldest files are gone"
    assert read_all_on(rotated, limit, Cursor(1, 0), max_bytes) == back[::-1]


def test_full_files_are_numbered_and_the_newest_are_kept(rotated: AuditFiles, tmp_path: Path) -> None:
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["audit.jsonl", "audit.jsonl.2", "audit.jsonl.3", "audit.jsonl.lock"]
    assert all(path.stat().st_size <= 300 for path in tmp_path.iterdir())
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600, "others need not know who uses the server"


def test_reading_on_after_the_end_gets_later_lines(rotated: AuditFiles) -> None:
    after = rotated.read_back(None, lambda line: True, 1, ALL).after
    assert read_all_on(rotated, 10, after) == []
    rotated.append(lines_of(range(100, 103)))
    for n in range(103, 130):  # and it rotates meanwhile
        rotated.append(lines_of(range(n, n + 1)))
    assert read_all_on(rotated, 2, after) == list(range(100, 130))


def test_lines_are_filtered(rotated: AuditFiles) -> None:
    page = rotated.read_back(None, lambda line: line["n"] % 10 == 0, 3, ALL)
    assert [line["n"] for line in page.lines] == [90, 80, 70]
    assert page.before is not None
    more = rotated.read_back(page.before, lambda line: line["n"] % 10 == 0, 1, ALL)
    assert [line["n"] for line in more.lines] == [60]


def test_broken_lines_are_skipped(tmp_path: Path) -> None:
    files = AuditFiles(tmp_path / "audit.jsonl", 10**6, 1)
    assert files.read_back(None, lambda line: True, 5, ALL).lines == []
    files.append(lines_of(range(2)))
    with files.path.open("ab") as file:
        file.write(b'\n[1]\n{"n": \n\xff\n')
    files.append(lines_of(range(2, 4)))
    assert read_all_back(files, 10) == [3, 2, 1, 0]
    assert read_all_on(files, 10, Cursor(1, 0)) == [0, 1, 2, 3]
    assert read_all_on(files, 10, Cursor(9, 9)) == [], "nothing comes after a place that is not there yet"
    assert [line["n"] for line in files.read_back(Cursor(9, 9), lambda line: True, 1, ALL).lines] == [3]


@for_each("text", ["", "1", "1-", "-1", "1-2-3", "a-b", "1-2 ", "1" * 16 + "-1"])
def test_a_bad_cursor_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cursor"):
        read_cursor(text)
    assert str(read_cursor("12-34")) == "12-34"


WRITER = """
import sys
from pathlib import Path
from manylabel_service.audit.files import AuditFiles

files, me = AuditFiles(Path(sys.argv[1]), 2000, 10_000), int(sys.argv[2])
for batch in range(40):
    files.append(b"".join(b'{"n": %d}\\n' % (1000 * me + 10 * batch + i) for i in range(10)))
"""


@pytest.mark.usefixtures("programs")
def test_several_processes_write_whole_lines_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, str(me)]) for me in range(3)]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0]
    found = read_all_back(AuditFiles(path, 2000, 10_000), 100)
    assert sorted(found) == sorted(1000 * me + i for me in range(3) for i in range(400))
    for me in range(3):
        assert [n for n in found if n // 1000 == me] == [1000 * me + i for i in reversed(range(400))]


FULL = """
import resource, sys
from pathlib import Path
from manylabel_service.audit.files import AuditFiles

files = AuditFiles(Path(sys.argv[1]), 10**6, 1)
files.append(b'{"n": 0}\\n')
resource.setrlimit(resource.RLIMIT_FSIZE, (30, resource.RLIM_INFINITY))  # as a disk with 30 bytes
try:
    files.append(b'{"n": 1}\\n' * 100)
except OSError:
    print("full")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
files.append(b'{"n": 2}\\n')
"""


@pytest.mark.usefixtures("programs")
def test_a_line_cut_off_by_a_full_disk_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    done = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "full\n"
    assert path.read_text() == '{"n": 0}\n{"n": 2}\n'
