"""The gateway embedded in another program: with the data folder, the store and the agents, without a listener.

The program keeps control of the process: its signals, terminal, log, umask and garbage collector. It talks to the
gateway through the application that a listener would serve, with a token that is valid within the block.
"""

from __future__ import annotations

import os
import re
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bot.access.signin import SCOPES
from bot.clock import SystemClock
from bot.control import logs
from bot.control.lock import DataDirInUse, DataDirLock
from bot.process.gateway import Gateway, Unusable
from bot.redaction import Redactor
from bot.settings import ChannelSettings, ConfigError
from bot.settings.http import HttpSettings
from bot.settings.load import SettingsSource
from bot.store import Store
from bot.store.errors import StoreError
from channels.http.config import HttpConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from fastapi import FastAPI

    from bot.settings import Settings

ACCOUNT = "api"
INSIDE = HttpSettings(listen="127.0.0.1:0")
"""The settings that requests are checked against; nothing listens on this address."""
NOT_HERE = frozenset({"console", "web", "api"})
"""Platforms whose accounts an embedded gateway does not have: the terminal and the page are not its own."""
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


@dataclass(frozen=True, slots=True)
class Embedded:
    """A serving gateway. token: for all scopes. failure: why the gateway stopped by itself, "" while it has not."""

    app: FastAPI
    token: str
    failure: Callable[[], str]


def settings_of(config: Settings | Path | str | None) -> Settings:
    """Return the settings for an embedding program: the given ones, those of a config file, or the built-in ones with
    the demo model. Raises Unusable, which lists every problem."""
    if config is not None and not isinstance(config, Path | str):
        return config
    try:
        return SettingsSource(None if config is None else Path(config)).read()
    except ConfigError as error:
        raise Unusable(str(error)) from None


@asynccontextmanager
async def embedded(settings: Settings, name: str, *, platforms: bool) -> AsyncIterator[Embedded]:
    """Serve within the block, as the only process of the data folder. name: the conversations are those of the person
    `api:NAME`. platforms: whether the config's accounts, except terminals, connect too; otherwise there is only the
    API. Raises Unusable."""
    if not NAME.fullmatch(name):
        raise Unusable(f"name: {name!r} should be up to 40 lower-case letters, digits and dashes")
    redact = Redactor(settings.secrets())
    async with AsyncExitStack() as stack:
        try:
            serving = await _begun(stack, _inside(settings, platforms=platforms), redact, name)
        except DataDirInUse as error:
            raise Unusable(f"{error}; use HTTP to reach a running gateway") from None
        except OSError as error:
            raise Unusable(f"{settings.data_dir} cannot be used: {os.strerror(error.errno or 0)}") from None
        except StoreError as error:
            raise Unusable(redact(str(error))) from None
        yield serving


def _inside(settings: Settings, *, platforms: bool) -> Settings:
    """The settings for an embedded gateway."""
    api = ChannelSettings(type=ACCOUNT, adapter=HttpConfig(uploads=settings.data_dir / "users"))
    others = {name: each for name, each in settings.channels.items() if each.type not in NOT_HERE and platforms}
    unheard = settings.http.model_copy(update={"listen": None})
    return settings.model_copy(update={"channels": {**others, ACCOUNT: api}, "http": unheard})


async def _begun(stack: AsyncExitStack, settings: Settings, redact: Redactor, name: str) -> Embedded:
    """Raises Unusable, DataDirInUse, OSError, StoreError."""
    clock = SystemClock()
    stack.enter_context(DataDirLock(settings.data_dir))
    stack.enter_context(logs.handed_on(redact))
    store = await Store.open(settings.database_url, clock=clock)
    stack.push_async_callback(store.close)
    gateway = Gateway(settings, store, clock, redact, embedded=True)
    app, signins = await stack.enter_async_context(gateway.serving(INSIDE))
    held = f"{name} embedded"
    await signins.revoke(held)  # a token left by a killed process, whose secret is lost
    _, token = await signins.make_token(held, SCOPES, f"{ACCOUNT}:{name}")
    redact.add(token)

    async def revoke() -> None:
        if not gateway.failure:
            await signins.revoke(held)

    stack.push_async_callback(revoke)
    return Embedded(app, token, lambda: gateway.failure)
