"""Checks by every flow test after its gateway has ended: a planned stop leaves nothing behind, and the log contains no
words of people, whatever the test was about (docs/privacy.md)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from bot.control.lock import DataDirLock
from bot.control.server import SOCKET
from bot.store.identity import folder_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.flow.gateway import World

DATABASE = "antler.db"
NOWHERE = "kanarienvogel"
"""A word in messages to others, or in chats without access: no file at all may contain it."""
CODE = re.compile(r"[2-9A-Z]{4}-[2-9A-Z]{4}-[2-9A-Z]{4}")
SHORTEST = 10
"""Least characters of a person's words to be checked: "hello" may be in a log by chance."""
MOST = 300
"""Number of newest messages that are checked; after thousands, older ones would add nothing."""
CLOSED_SECONDS = 15.0


async def check(world: World) -> None:
    """Raise AssertionError for anything that the stop should have removed."""
    assert "left behind:" not in world.log, world.log
    check_data(world.data_dir, world.found)
    check_words(world.data_dir, world.log)
    await all_closed(world.telegram.open_connections)
    await all_closed(world.model.open_connections)


def logs_of(folder: Path) -> set[tuple[Path, int]]:
    """Logs of databases in the folder that were not checkpointed, with the time of the last write."""
    logs = [path for pattern in ("*-wal", "*-journal") for path in folder.glob(pattern)]
    return {(path, path.stat().st_mtime_ns) for path in logs if path.stat().st_size}


def check_data(folder: Path, found: set[tuple[Path, int]]) -> None:
    """Check that the data folder is closed, complete and free for the next process.

    found: of a killed process, before this one started; it may have stopped before it opened the agent's database.
    """
    assert not (folder / SOCKET).exists()
    with DataDirLock(folder):
        pass
    logs = {path.name for path, _ in logs_of(folder) - found}
    assert not logs, f"not checkpointed: {logs}"
    uploads = {str(path) for path in folder.glob("threads/*/user-data/uploads/*")}
    if (folder / DATABASE).exists():
        stray = {path for path in uploads - _given_to_runs(folder / DATABASE) if not _is_branched(folder, path)}
        assert not stray, f"files that no run was given: {stray}"


def check_words(folder: Path, log: str) -> None:
    """Check that no person's words are in the log, and that words not meant for the bot are in no file."""
    told = [words for words in _said(folder / DATABASE) if words in log]
    assert not told, f"in the log: {told}\n{log}"
    assert NOWHERE not in log
    holding = [path for path in folder.rglob("*") if path.is_file() and NOWHERE.encode() in path.read_bytes()]
    assert not holding, f"words that were not for the bot are in {holding}"


def _said(database: Path) -> set[str]:
    """Lines of people's messages, and names of their files, from the inbox."""
    if not database.exists():
        return set()
    with contextlib.closing(sqlite3.connect(f"file:{database}?immutable=1", uri=True)) as connection:
        rows = connection.execute("select event from inbox order by id desc limit ?", (MOST,))
        events = [json.loads(event) for (event,) in rows]
    messages = [event.get("message", event) for event in events]
    texts = [message.get("text", "") for message in messages]
    names = [file["name"] or "" for message in messages for file in message.get("attachments", ())]
    lines = {line.strip() for text in (*texts, *names) for line in text.splitlines()}
    return {line for line in lines if len(line) >= SHORTEST and not line.startswith("/") and not CODE.search(line)}


def _is_branched(folder: Path, path: str) -> bool:
    """Whether a file was copied into a branch of a chat."""
    with contextlib.closing(sqlite3.connect(f"file:{folder / DATABASE}?immutable=1", uri=True)) as connection:
        threads = [thread_id for (thread_id,) in connection.execute("select thread_id from branches")]
    return any(folder_name(thread_id) in Path(path).parts for thread_id in threads)


def _given_to_runs(database: Path) -> set[str]:
    with contextlib.closing(sqlite3.connect(f"file:{database}?immutable=1", uri=True)) as connection:
        inputs = [json.loads(text) for (text,) in connection.execute("select input from runs")]
    files = [file for run_input in inputs for file in run_input["files"]]
    return {path for file in files for path in (file["path"], file.get("text_path")) if path is not None}


async def all_closed(open_connections: Callable[[], Awaitable[int]]) -> None:
    async with asyncio.timeout(CLOSED_SECONDS):
        while await open_connections():
            pass
