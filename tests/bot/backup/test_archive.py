"""Archives of backups: what went in comes out, and what was changed on the way is refused."""

from __future__ import annotations

import io
import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from bot.backup.archive import MANIFEST, BadArchive, Entry, Manifest, extract, writing
from bot.backup.databases import Databases

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EMPTY = Manifest(version="1", made_at="now", data_dir="/data", databases=Databases(kind="sqlite", revision="1"))
ENDINGS = [".tar.zst", ".tar.gz"]


def untold(name: str, size: int) -> None:
    """Nobody looks at the progress."""


def make(folder: Path, ending: str) -> Path:
    tree = folder / "tree"
    (tree / "inner" / "empty").mkdir(parents=True)
    (tree / "inner" / "a b\nc.txt").write_bytes(b"text")
    (tree / "big").write_bytes(os.urandom(300_000))
    (tree / "odd-\udc80").write_bytes(b"")
    (tree / "link").symlink_to("/etc/passwd")
    (tree / "run.sh").write_text("#!/bin/sh\n")
    (tree / "run.sh").chmod(0o4755)
    os.mkfifo(tree / "pipe")
    os.link(tree / "big", tree / "same")
    target = folder / f"copy{ending}"
    with writing(target, untold) as writer:
        writer.add_tree(tree, "data", frozenset({"left"}))
        made = writer.finish(EMPTY)
    assert {entry.path for entry in made.entries if entry.link} == {"data/link"}
    return target


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_goes_in_comes_out(tmp_path: Path, ending: str) -> None:
    target, out = make(tmp_path, ending), tmp_path / "out"
    assert target.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.glob(".*")] == []
    manifest = extract(target, out, untold)
    assert manifest.data_dir == "/data"
    tree, copy = tmp_path / "tree", out / "data"
    assert (copy / "inner" / "a b\nc.txt").read_bytes() == b"text"
    assert (copy / "big").read_bytes() == (copy / "same").read_bytes() == (tree / "big").read_bytes()
    assert (copy / "odd-\udc80").exists()
    assert os.readlink(copy / "link") == "/etc/passwd"
    assert (copy / "run.sh").stat().st_mode & 0o7777 == 0o755
    assert (copy / "inner" / "empty").is_dir()
    assert not (copy / "pipe").exists()


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_was_cut_off_or_changed_is_refused(tmp_path: Path, ending: str) -> None:
    whole = make(tmp_path, ending).read_bytes()
    spoilt = tmp_path / f"spoilt{ending}"
    for size in (0, 3, 100, len(whole) // 2, len(whole) - 600):
        spoilt.write_bytes(whole[:size])
        with pytest.raises(BadArchive):
            extract(spoilt, tmp_path / f"out-{size}", untold)
    checksum = len(whole) - 2
    for place in (*range(len(whole) // 4, len(whole) - 600, len(whole) // 50), checksum):
        spoilt.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(BadArchive):
            extract(spoilt, tmp_path / f"out-{place}", untold)


def handmade(folder: Path, *members: tuple[tarfile.TarInfo, bytes], entries: tuple[Entry, ...] = ()) -> Path:
    """An archive as somebody else could make it."""
    target = folder / "handmade.tar.gz"
    manifest = EMPTY.model_copy(update={"entries": entries}).model_dump_json().encode()
    with tarfile.open(target, "w:gz") as tar:
        for info, data in (*members, (tarfile.TarInfo(MANIFEST), manifest)):
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return target


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def device(name: str) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type = tarfile.CHRTYPE
    return info, b""


@pytest.mark.parametrize(
    "members",
    [
        lambda out: [(tarfile.TarInfo("../escaped"), b"x")],
        lambda out: [(tarfile.TarInfo("data/../../escaped"), b"x")],
        lambda out: [(tarfile.TarInfo(str(out.parent / "escaped")), b"x")],
        lambda out: [link("../escaped", "/etc/passwd")],
        lambda out: [link("data", str(out.parent), tarfile.LNKTYPE)],
        lambda out: [device("data/null")],
    ],
    ids=["up", "up later", "absolute", "link", "hard link", "device"],
)
def test_nothing_is_written_outside(
    tmp_path: Path, members: Callable[[Path], list[tuple[tarfile.TarInfo, bytes]]]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(BadArchive, match="not an Antler backup"):
        extract(handmade(tmp_path, *members(out)), out, untold)
    assert not (tmp_path / "escaped").exists()


def test_a_link_is_no_way_out_for_another(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    entries = (Entry(path="a", link=str(tmp_path)), Entry(path="a/escaped", link="/etc/passwd"))
    archive = handmade(tmp_path, link("a", str(tmp_path)), link("a/escaped", "/etc/passwd"), entries=entries)
    with pytest.raises(BadArchive, match="leads out of the folder"):
        extract(archive, out, untold)
    assert not (tmp_path / "escaped").is_symlink()


def test_a_file_does_not_go_through_a_link(tmp_path: Path) -> None:
    """Links are made last, so that this becomes a folder, in which the link then has no place."""
    out = tmp_path / "out"
    out.mkdir()
    archive = handmade(tmp_path, link("a", str(tmp_path)), (tarfile.TarInfo("a/escaped"), b"x"))
    with pytest.raises(BadArchive, match="a is not in the manifest"):
        extract(archive, out, untold)
    assert not (tmp_path / "escaped").exists()


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ((), "f is not in the manifest"),
        ((Entry(path="f", size=1, sha256="0"),), "f has changed"),
        ((Entry(path="g"), Entry(path="f", size=1)), "f has changed"),
    ],
)
def test_the_manifest_has_to_agree(tmp_path: Path, entries: tuple[Entry, ...], why: str) -> None:
    with pytest.raises(BadArchive, match=why):
        extract(handmade(tmp_path, (tarfile.TarInfo("f"), b"x"), entries=entries), tmp_path / "out", untold)


def test_a_standing_archive_and_an_unknown_ending_are_refused(tmp_path: Path) -> None:
    make(tmp_path, ".tar.gz")
    with pytest.raises(BadArchive, match="already exists"), writing(tmp_path / "copy.tar.gz", untold):
        pass
    with pytest.raises(BadArchive, match=r"end in \.tar\.zst"), writing(tmp_path / "copy.zip", untold):
        pass


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), writing(tmp_path / "copy.tar.zst", untold):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
