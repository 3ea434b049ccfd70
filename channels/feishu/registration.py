"""Creation of a Feishu app by scanning a code: the program that requests one through lark-oapi, and how it is run.

The SDK's own flow (`scene.registration`) loads the whole SDK, which a gateway never does (sdk.py), so it runs in a
separate process: `python -m channels.feishu.registration ROOT`. It writes one JSON object per line: {"url",
"expire_in"}, and then {"client_id", "client_secret", "lark"} or {"error"}.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import certifi

from channels.feishu.config import SCOPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from channels.base import Route

ACCOUNTS = {"feishu": "https://accounts.feishu.cn", "lark": "https://accounts.larksuite.com"}
"""Where apps are registered; Lark users are redirected from the first."""
EVENTS = (
    "im.message.receive_v1",
    "im.message.recalled_v1",
    "im.chat.member.bot.added_v1",
    "im.chat.member.bot.deleted_v1",
)
CALLBACKS = ("card.action.trigger",)


class RegistrationFailed(Exception):
    """No app was created; the text contains the platform's answer."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The app that was created. domain: as in FeishuConfig."""

    app_id: str
    app_secret: str
    domain: str


async def register(domain: str, show: Callable[[str, int], None], route: Callable[[str], Route]) -> Registered:
    """Let a person create an app. show: receives the link to open or scan, and the seconds for which it is valid.
    route: as in ChannelPorts.

    Raises RegistrationFailed. Cancelling it ends the process.
    """
    root = ACCOUNTS.get(domain, domain)
    with _variables(route(root)) as env:
        return await _registered(domain, root, show, env)


@contextmanager
def _variables(route: Route) -> Iterator[dict[str, str]]:
    """An environment in which the SDK's client takes the route; it has no other settings for that."""
    proxy = route.proxy or ""
    env = {**os.environ, "http_proxy": proxy, "https_proxy": proxy, "no_proxy": "" if proxy else "*"}
    with tempfile.NamedTemporaryFile() as trusted:
        if route.ca_file is not None:
            try:
                trusted.write(Path(certifi.where()).read_bytes() + route.ca_file.read_bytes())
            except OSError as error:
                raise RegistrationFailed(f"network.ca_file: {error.strerror}") from error
            trusted.flush()
            env["SSL_CERT_FILE"] = trusted.name
        yield env


async def _registered(domain: str, root: str, show: Callable[[str, int], None], env: Mapping[str, str]) -> Registered:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, root),
        env=env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            match json.loads(line):
                case {"url": str(url), "expire_in": int(seconds)}:
                    show(url, seconds)
                case {"client_id": str(app_id), "client_secret": str(secret), "lark": bool(lark)}:
                    return Registered(app_id, secret, "lark" if lark else domain)
                case {"error": str(error)}:
                    raise RegistrationFailed(error)
        raise RegistrationFailed("the SDK exited without a result")
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


async def _ask(root: str) -> None:
    from lark_oapi.scene.registration import aregister_app

    scopes = sorted({name for scope in SCOPES for name in scope.names[:1]} | {"im:message:send_as_bot"})
    addons = {
        "scopes": {"tenant": scopes},
        "events": {"items": {"tenant": list(EVENTS)}},
        "callbacks": {"items": list(CALLBACKS)},
    }
    made = await aregister_app(
        lambda code: _say(url=code["url"], expire_in=code["expire_in"]),
        domain=root,
        lark_domain=ACCOUNTS["lark"] if root in ACCOUNTS.values() else root,
        app_preset={"name": "Antler", "desc": "An agent in your chat"},
        addons=addons,
    )
    lark = (made.get("user_info") or {}).get("tenant_brand") == "lark"
    _say(client_id=made["client_id"], client_secret=made["client_secret"], lark=lark and root in ACCOUNTS.values())


def main() -> None:
    """Run the flow until it ends."""
    try:
        asyncio.run(_ask(sys.argv[1]))
    except Exception as error:  # anything the SDK raises: its own errors, httpx's, a missing key in an answer
        _say(error=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
