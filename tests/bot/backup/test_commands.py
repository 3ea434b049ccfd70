"""`antler backup` and `antler restore` on folders at rest: what is taken along, what is refused, what is told."""

from __future__ import annotations

import asyncio
import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from bot.backup.commands import backup, restore
from bot.clock import SystemClock
from bot.control.lock import DataDirLock
from bot.settings import Settings
from bot.store import Store

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "sk-0123456789abcdef"


async def standing(folder: Path) -> Settings:
    """A gateway's folders with something in each, and its config."""
    settings = Settings.model_validate(
        {
            "channels": {"console": {}},
            "data_dir": folder / "data",
            "agents_dir": folder / "agents",
            "skills": {"custom": str(folder / "own-skills")},
        }
    )
    files = {
        "data/threads/t/user-data/workspace/a.txt": "file",
        "data/spool/r/out.txt": "on its way",
        "data/users/u/memory.json": "{}",
        "data/mcp/0123.json": SECRET,
        "data/antler.log": "a line",
        "data/antler.db.before-1.bak": "old",
        "agents/poet/SOUL.md": "I rhyme.",
        "own-skills/tidy/SKILL.md": "Tidies.",
        "config.yaml": "data_dir: data\n",
        ".env": f"KEY={SECRET}\n",
    }
    for name, text in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    await (await Store.open(settings.database_url, clock=SystemClock())).close()
    return settings


def names(archive: Path) -> set[str]:
    with tarfile.open(archive) as tar:
        return {member.name for member in tar if member.isfile()}


EVERYTHING = {
    "manifest.json",
    "databases/antler.db",
    "data/threads/t/user-data/workspace/a.txt",
    "data/spool/r/out.txt",
    "data/users/u/memory.json",
    "agents/poet/SOUL.md",
    "skills/tidy/SKILL.md",
    "config/config.yaml",
}
FILES = {"data/threads/t/user-data/workspace/a.txt", "data/spool/r/out.txt"}
SECRETS = {"config/.env", "data/mcp/0123.json"}


async def test_secrets_are_left_out_unless_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings, config = await standing(tmp_path), tmp_path / "config.yaml"
    for name, files, secrets, config_is_secret, wanted in (
        ("a", True, False, False, EVERYTHING),
        ("b", True, False, True, EVERYTHING - {"config/config.yaml"}),
        ("c", True, True, True, EVERYTHING | SECRETS),
        (
            "d",
            False,
            False,
            False,
            EVERYTHING - FILES,
        ),
    ):
        target = tmp_path / f"{name}.tar.gz"
        done = await asyncio.to_thread(
            backup, settings, config, target, files=files, secrets=secrets, config_is_secret=config_is_secret
        )
        assert (done, names(target)) == (0, wanted)
        told = capsys.readouterr().out
        assert (".env (--with-secrets)" in told, "tokens of MCP" in told) == (not secrets, not secrets)
        assert ("--no-files" in told, "contains secrets" in told) == (not files, config_is_secret > secrets)


async def test_everything_comes_back_to_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = await standing(tmp_path / "old")
    target = tmp_path / "copy.tar.zst"
    given = {"files": True, "secrets": True, "config_is_secret": False}
    await asyncio.to_thread(backup, settings, tmp_path / "old/config.yaml", target, **given)
    new = tmp_path / "new"
    moved = settings.model_copy(update={"data_dir": new / "data", "agents_dir": new / "agents"})
    assert restore(moved, target, force=False) == 0
    assert (new / "data/threads/t/user-data/workspace/a.txt").read_text() == "file"
    assert (new / "data/mcp/0123.json").read_text() == SECRET
    assert (new / "agents/poet/SOUL.md").read_text() == "I rhyme."
    assert (new / "data/antler.db").stat().st_mode & 0o777 == 0o600
    # Skills stand where the config has them, so those of then are beside, as the config is.
    assert (new / "data/restored/skills/tidy/SKILL.md").read_text() == "Tidies."
    assert (new / "data/restored/config/.env").read_text() == f"KEY={SECRET}\n"
    for place, line in ((settings, "backup copy.tar.zst"), (moved, "restore copy.tar.zst")):
        assert f"bot.control.actions: {line}, by antler on the machine" in (place.data_dir / "antler.log").read_text()
    assert (new / "data/antler.log").stat().st_mode & 0o777 == 0o600
    told = capsys.readouterr().out
    assert f"compare them with {tmp_path / 'old/own-skills'}" in told
    assert sorted(path.name for path in (new / "data").iterdir()) == sorted(
        ["antler.db", "antler.lock", "antler.log", "mcp", "restored", "spool", "threads", "users"]
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root restores for another user")
async def test_what_root_restores_belongs_to_the_user_of_the_folder(tmp_path: Path) -> None:
    settings, target = await standing(tmp_path / "old"), tmp_path / "copy.tar.zst"
    given = {"files": True, "secrets": False, "config_is_secret": False}
    await asyncio.to_thread(backup, settings, tmp_path / "old/config.yaml", target, **given)
    data = settings.data_dir
    os.chown(data, 10001, 10001)
    assert restore(settings, target, force=True) == 0
    (aside,) = data.glob("replaced-*")
    assert {path.stat().st_uid for path in (data, data / "antler.db", data / "restored", aside)} == {10001}


async def test_what_cannot_be_restored_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings, target = await standing(tmp_path), tmp_path / "copy.tar.gz"
    before = {path for path in (tmp_path / "data").rglob("*") if path.name != "antler.lock"}
    assert (
        backup(settings, None, settings.data_dir / "in.tar.gz", files=True, secrets=False, config_is_secret=False) == 1
    )
    assert "inside the data folder" in capsys.readouterr().err
    given = {"files": True, "secrets": False, "config_is_secret": False}
    await asyncio.to_thread(backup, settings, None, target, **given)
    with DataDirLock(settings.data_dir):
        assert restore(settings, target, force=True) == 1
    assert "in use by process" in capsys.readouterr().err
    assert restore(settings, target, force=False) == 1
    assert "is not empty (agents" not in capsys.readouterr().err
    target.write_bytes(target.read_bytes()[:-200])
    assert restore(settings, target, force=True) == 1
    assert "cannot be read" in capsys.readouterr().err
    assert {path for path in (tmp_path / "data").rglob("*") if path.name != "antler.lock"} == before
