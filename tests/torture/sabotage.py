"""Runs in the launched process: removes one protection, so that a test can show that the suite would notice."""

from __future__ import annotations

import functools
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.torture.seams import AfterImport


def _no_intent(intend: Callable[..., Any]) -> Callable[..., Any]:
    """Do not record a message in the outbox before it is sent."""

    @functools.wraps(intend)
    async def nothing(*args: Any, **kwargs: Any) -> None:
        pass

    return nothing


def _no_keys(publish: Callable[..., Any]) -> Callable[..., Any]:
    """Give each delivery its own key, so that no event is ever a duplicate."""

    @functools.wraps(publish)
    async def with_new_keys(bus: Any, events: Any) -> None:
        await publish(bus, [replace(event, dedupe_keys=(uuid.uuid4().hex,)) for event in events])

    return with_new_keys


def _no_guard(begin: Callable[..., Any]) -> Callable[..., Any]:
    """Hide recorded tool calls from EffectGuard, which then allows every call."""

    @functools.wraps(begin)
    async def unknown(*args: Any, **kwargs: Any) -> None:
        await begin(*args, **kwargs)

    return unknown


def _no_commit(publish: Callable[..., Any]) -> Callable[..., Any]:
    """Report events as stored, so that they are acknowledged, without storing them."""

    @functools.wraps(publish)
    async def acknowledged(*args: Any, **kwargs: Any) -> bool:
        return True

    return acknowledged


def _nothing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Do nothing and return None."""

    @functools.wraps(original)
    def nothing(*args: Any, **kwargs: Any) -> None:
        pass

    return nothing


SABOTAGE: dict[str, dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]]] = {
    "no-intent": {
        "bot.delivery.journal:Journal.intend": _no_intent,
        "bot.delivery.service:Delivery.intent": _nothing,
    },
    "no-keys": {"bot.inbound.bus:MessageBus.publish": _no_keys},
    "no-commit-on-slack": {"channels.slack.receiving:Intake.publish": _no_commit},
    "no-reading-on-wecom": {"channels.wecom.receiving:Receiver.take": _nothing},
    "no-guard": {"bot.store.run_events:StoreEffectLog.begin": _no_guard},
}
"""Name -> {target: replacement}."""


def commit_sabotage(seams: AfterImport, name: str) -> None:
    """Remove the protection of that name."""
    for target, change in SABOTAGE[name].items():
        seams.replace(target, change)
