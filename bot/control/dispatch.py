"""Does what a command asks for wherever the data is held now: in the running process, else in this one."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from bot.control.lock import DataDirInUse, DataDirLock
from bot.control.server import NotRunning, Refused, ask, connection
from bot.redaction import Redactor
from bot.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from bot.settings import Settings

    Here = Callable[[Settings, Mapping[str, Any]], Coroutine[Any, Any, dict[str, Any]]]


def do_there_or_here(settings: Settings, operation: str, request: Mapping[str, Any], here: Here) -> int:
    """Print the answer; returns the exit code. here: does it while nothing runs, with the data folder locked; like the
    running process it answers with "text" and whether it is "done"."""
    try:
        answer = asyncio.run(_ask(settings, operation, request))
    except Refused as error:
        return _fail(str(error))
    except NotRunning:
        try:
            with DataDirLock(settings.data_dir):
                answer = asyncio.run(here(settings, request))
        except DataDirInUse as error:
            return _fail(f"{error} (it does not answer yet, or any more)")
        except StoreError as error:
            return _fail(Redactor(settings.secrets())(str(error)))
    if not answer.get("done"):
        return _fail(str(answer.get("text")))
    print(answer.get("text"))
    return 0


async def _ask(settings: Settings, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
    async with connection(settings.data_dir) as (reader, writer):
        answer = await ask(reader, writer, operation, **request)
    if not isinstance(answer, dict):
        raise Refused("the antler process gave an answer of an unknown form")
    return answer


def _fail(reason: str) -> int:
    print(f"antler: {reason}", file=sys.stderr)
    return 1
