"""Puts the parts of forgetting together, for the composition root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.forgetting.persons import PersonEraser, removed
from bot.forgetting.retention import Retention
from bot.forgetting.service import Forgetting
from bot.forgetting.threads import ThreadEraser
from bot.store.identity import users_folder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from bot.delivery.presented import Presented
    from bot.delivery.respond import Responder
    from bot.forgetting.persons import Memories
    from bot.forgetting.service import InOrder
    from bot.store.retrying import PatientStore
    from bot.tasks import Tasks
    from channels.base import Clock
    from harness.ports import Harness


def make_forgetting(
    *,
    store: PatientStore,
    clock: Clock,
    tasks: Tasks,
    responder: Responder,
    harness: Callable[[], Awaitable[Harness]],
    files: Callable[[str], Awaitable[None]],
    presented: Presented,
    memories: Memories,
    data_dir: Path,
    in_order: InOrder,
    background: Callable[[str], None],
    keep_threads_days: int | None,
    remove: Callable[[Path], Awaitable[None]] = removed,
) -> tuple[Forgetting, Retention]:
    """files: deletes those of a thread. data_dir: persons' own folders are below it. keep_threads_days: None: threads
    are kept until somebody deletes them. remove: deletes a folder, if it is there."""
    threads = ThreadEraser(store, harness, files, presented)
    service = Forgetting(
        store=store,
        clock=clock,
        tasks=tasks,
        responder=responder,
        threads=threads,
        persons=PersonEraser(store, threads, memories, users_folder(data_dir), remove),
        in_order=in_order,
        background=background,
    )
    return service, Retention(store, service, in_order, clock, keep_threads_days)
