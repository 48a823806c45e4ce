"""`manylabel models --prefix`, `models like`, `export-all` and `delete-all` against a real server."""

import json
import tarfile
from pathlib import Path
from typing import Any

from manylabel_clients import Client


def test_models_of_a_prefix_are_made_like_a_template_exported_and_deleted(
    client: Client, manylabel: Any, name: str, tmp_path: Path
) -> None:
    prefix, file = f"{name[:44]}-17-", tmp_path / "all.tar"
    client.create_model(f"{prefix}t", labels=[{"name": "a", "title": "First"}])
    made = manylabel("models", "like", f"{prefix}a", f"{prefix}t")
    assert (made.status, made.out) == (0, f"created {prefix}a like {prefix}t\n")
    assert client.model(f"{prefix}a").labels().labels[0].title == "First"
    for order in ("name", "used"):
        shown = manylabel("models", "--prefix", prefix, "--sort", order, "--json")
        assert {json.loads(line)["name"] for line in shown.out.splitlines()} == {f"{prefix}a", f"{prefix}t"}
    exported = manylabel("models", "export-all", prefix, str(file))
    assert (exported.status, exported.out) == (0, f"wrote {file} ({file.stat().st_size:,} bytes)\n")
    with tarfile.open(file) as archive:
        assert sorted(archive.getnames()) == [f"{prefix}a.safetensors", f"{prefix}t.safetensors"]
        snapshot = archive.extractfile(f"{prefix}a.safetensors")
        assert snapshot is not None
        data = snapshot.read()
    deleted = manylabel("models", "delete-all", prefix, "--yes")
    assert (deleted.status, deleted.out) == (0, f"deleted {prefix}a\ndeleted {prefix}t\n")
    assert client.models(prefix) == []
    exported = manylabel("models", "export-all", prefix, str(tmp_path / "none.tar"))
    assert (exported.status, exported.err) == (1, f"manylabel: no model's name begins with {prefix}\n")
    assert not (tmp_path / "none.tar").exists()
    assert manylabel("models", "delete-all", prefix, "--yes").out == f"no model's name begins with {prefix}\n"
    assert manylabel("models", "--prefix", prefix).out == f"no model's name begins with {prefix}\n"
    restored = client.upload_model(f"{prefix}a", data)
    assert restored.labels().labels[0].title == "First"
    restored.delete()
