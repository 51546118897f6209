"""Nobody else on the machine reads what is in the data folder."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.data.folders import DataFolder
from engine.files.privacy import keep_private, protect
from tests.e2e.sites import ROOT, real_site

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="its folders are the user's alone")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def open_for_others(root: Path) -> list[str]:
    everything = [root, *root.rglob("*")]
    return [f"{mode(p):o} {p}" for p in everything if mode(p) & 0o077 and not p.is_symlink()]


@pytest.fixture(autouse=True)
def usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def used_folder(root: Path) -> DataFolder:
    folder = DataFolder(root)
    for path in (folder.conversations_file, folder.preferences_file, folder.measurements_file,
                 folder.logs / "engine-output.txt", folder.training / "x" / "shards" / "a.npy",
                 folder.models / "m.gguf", root / "conversations.sqlite3-wal",
                 root / "preferences.unreadable.json", root / ".preferences.json.x7"):  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        path.chmod(0o644)
    return folder


def test_what_is_there_is_corrected(tmp_path: Path) -> None:
    folder = used_folder(tmp_path / "data")
    assert len(open_for_others(folder.root)) > 10
    protect(folder)
    assert open_for_others(folder.root) == []


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "model.gguf").write_text("x")
    folder = used_folder(tmp_path / "data")
    (folder.root / "thesis").mkdir()
    (folder.models / "link").symlink_to(shared)
    (folder.models / "file.gguf").symlink_to(shared / "model.gguf")
    protect(folder)
    assert {mode(shared), mode(folder.root), mode(folder.root / "thesis")} == {0o755}
    assert mode(shared / "model.gguf") == 0o644
    assert mode(folder.conversations_file) == 0o600 and mode(folder.models) == 0o700


def test_a_folder_that_is_made_is_private_without_a_mask(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "new" / "data").ensure()
    assert open_for_others(folder.root) == []
    assert mode(tmp_path / "new") == 0o755


def test_what_is_made_later_is_private(tmp_path: Path) -> None:
    keep_private()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("x")
    assert open_for_others(tmp_path / "folder") == []


def test_a_started_page_leaves_nothing_open(tmp_path: Path) -> None:
    folder = used_folder(tmp_path / "data")
    folder.conversations_file.unlink()
    (folder.root / "conversations.sqlite3-wal").unlink()
    folder.preferences_file.unlink()
    site = real_site(folder.root)
    site.log = tmp_path / "site.log"
    site.start()
    assert open_for_others(folder.root) == []
    site.stop()
    assert open_for_others(folder.root) == []


def test_what_other_programs_share_keeps_the_user_s_mask(tmp_path: Path) -> None:
    """A process that has closed its own files starts another one for the Hub's cache."""
    script = (
        "import os, subprocess, sys\n"
        "from engine.files.privacy import USUAL_MASK, keep_private\n"
        "keep_private()\n"
        "for name, mask in (('own', -1), ('shared', USUAL_MASK)):\n"
        "    write = f'open({name!r}, \"w\").close()'\n"
        "    subprocess.run([sys.executable, '-c', write], umask=mask, check=True)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True)
    assert mode(tmp_path / "own") == 0o600 and mode(tmp_path / "shared") == 0o644
