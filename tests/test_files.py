"""Files written whole or not at all."""

import os
from pathlib import Path

import pytest

from fairq.files import write_whole


def test_writes_bytes_and_text_and_makes_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a.csv"
    assert write_whole(path, b"a\r\n\xff") == path
    assert path.read_bytes() == b"a\r\n\xff"
    write_whole(path, "größer\n")
    assert path.read_bytes() == "größer\n".encode()
    assert [p.name for p in path.parent.iterdir()] == ["a.csv"]


def test_a_failure_keeps_the_old_file_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("old")

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]


def test_others_may_read_it_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        path = write_whole(tmp_path / "a", "x")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_folder_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match="a"):
        write_whole(tmp_path / "a", "x")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
