"""The platforms that Antler supports: name -> location of its settings and its adapter.

An adapter is imported only when one of its accounts is enabled, so that an unused SDK costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from channels.base import AccountReport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pydantic import BaseModel

    from channels.base import Channel, ChannelPorts, Clock, Route


@dataclass(frozen=True, slots=True)
class Platform:
    """config: "module:Class" of its pydantic settings; channel: "module:Class" called as (account, config, ports).

    manifest: "module:function" that generates the text (app name -> text) with which an app is created on the platform,
    "" where none is needed. probe: "module:function", called as `probe` below without the platform; "" where there is
    no server to query. name: what people call it.
    """

    config: str
    channel: str
    manifest: str = ""
    probe: str = ""
    name: str = ""


PLATFORMS = {
    "telegram": Platform(
        "channels.telegram.config:TelegramConfig",
        "channels.telegram.channel:TelegramChannel",
        probe="channels.telegram.probe:probe",
        name="Telegram",
    ),
    "slack": Platform(
        "channels.slack.config:SlackConfig",
        "channels.slack.channel:SlackChannel",
        manifest="channels.slack.config:manifest",
        probe="channels.slack.probe:probe",
        name="Slack",
    ),
    "feishu": Platform(
        "channels.feishu.config:FeishuConfig",
        "channels.feishu.channel:FeishuChannel",
        probe="channels.feishu.probe:probe",
        name="Feishu (Lark)",
    ),
    "wecom": Platform(
        "channels.wecom.config:WecomConfig",
        "channels.wecom.channel:WecomChannel",
        probe="channels.wecom.probe:probe",
        name="WeCom",
    ),
    "console": Platform(
        "channels.console.config:ConsoleConfig", "channels.console.channel:ConsoleChannel", name="the terminal"
    ),
    "web": Platform("channels.http.config:HttpConfig", "channels.http.channel:HttpChannel", name="the page"),
    "api": Platform("channels.http.config:HttpConfig", "channels.http.channel:HttpChannel", name="the API"),
}

OWN = frozenset({"web", "api"})
"""The platforms provided by the gateway's own HTTP service. Each has one account, of the same name, which exists while
the service runs; its people are those of other accounts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedMessage:
    """A message identified by a link. chat: "" where the link does not contain its id. handle: the chat's public name,
    in lower case, where the link contains that instead."""

    platform: str
    message_id: str
    chat: str = ""
    handle: str = ""


def message_of_link(link: str) -> LinkedMessage | None:
    """The message that a link copied from an app, or an id shown by a platform, refers to; None where there is none.

    Telegram has message links only in supergroups and channels, WeCom has none, and the links that Feishu copies
    contain a token that is meaningless to a bot.
    """
    copied = link.strip().strip("<>")
    try:
        url = urlsplit(copied if "://" in copied else f"https://{copied}")
        place = [url.scheme, url.hostname or "", *filter(None, url.path.split("/"))]
    except ValueError:
        return None
    asked = {key.lower().replace("_", ""): value for key, value in parse_qsl(url.query)}
    match place:
        # Message ids are unique within a chat, so the topic before one adds nothing (core.telegram.org/api/links).
        case ["http" | "https", "t.me" | "telegram.me", "c", chat, *topic, post] if len(topic) < 2:
            return _of_telegram(post, chat=chat)
        case ["http" | "https", "t.me" | "telegram.me", handle, *topic, post] if len(topic) < 2:
            return _of_telegram(post, handle=handle)
        case ["http" | "https", host, *topic, post] if host.endswith(".t.me") and len(topic) < 2:
            return _of_telegram(post, handle=host.removesuffix(".t.me"))
        case ["tg", "privatepost" | "resolve"]:
            return _of_telegram(asked.get("post", ""), asked.get("channel", ""), asked.get("domain", ""))
        case ["https", "app.slack.com" | "app.slack-gov.com", "client", _, chat, post]:
            return _of_slack(post, chat)
        case ["https", host, "archives", chat, post] if host.endswith((".slack.com", ".slack-gov.com")):
            return _of_slack(post, chat)
        case ["https", host, *_] if host.endswith((".feishu.cn", ".larksuite.com")):
            return _of_feishu(asked.get("openmessageid", ""))
    return _of_feishu(copied)


def _of_telegram(post: str, chat: str = "", handle: str = "") -> LinkedMessage | None:
    named = chat.isdecimal() if chat else len(handle) > 1 and handle.isidentifier()
    if not (named and post.isdecimal()):
        return None
    # "dialog ids" of supergroups (core.telegram.org/api/bots/ids)
    return LinkedMessage(
        platform="telegram", message_id=post, chat=chat and f"-100{chat}", handle="" if chat else handle.lower()
    )


def _of_slack(post: str, chat: str) -> LinkedMessage | None:
    """Parse a Slack link. post: "p" and the message's timestamp in microseconds."""
    time = post[1:]
    if not (post.lower().startswith("p") and time.isdecimal() and len(time) == 16 and chat.isalnum()):
        return None
    return LinkedMessage(platform="slack", message_id=f"{time[:10]}.{time[10:]}", chat=chat.upper())


def _of_feishu(message_id: str) -> LinkedMessage | None:
    named = message_id.startswith("om_") and message_id.removeprefix("om_").isalnum()
    return LinkedMessage(platform="feishu", message_id=message_id) if named else None


class UnknownPlatform(LookupError):
    """The name is not in PLATFORMS; the text lists those that are."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unknown platform {name!r}; known platforms: {', '.join(sorted(PLATFORMS.keys() - OWN))}")
        self.name = name


class NoManifest(LookupError):
    """The platform needs no manifest to create an app."""

    def __init__(self, name: str) -> None:
        with_one = ", ".join(sorted(name for name, platform in PLATFORMS.items() if platform.manifest))
        super().__init__(f"{name} has no app manifest; only {with_one} does")
        self.name = name


def config_class(platform: str) -> type[BaseModel]:
    """The settings class of a platform; imports no SDK. Raises UnknownPlatform."""
    found: Any = _load(_platform(platform).config)
    return found  # type: ignore[no-any-return]  # the table's strings are beyond the type checker; a test loads them all


def names_group(platform: str, native_id: str) -> bool | None:
    """Whether an id is a group's and not a person's; None where the platform's ids do not show it."""
    tells: Callable[[str], bool] | None = getattr(config_class(platform), "names_group", None)
    return None if tells is None else tells(native_id)


def channel_class(platform: str) -> Callable[[str, Any, ChannelPorts], Channel]:
    """The adapter of a platform; imports its SDK. Raises UnknownPlatform."""
    found: Any = _load(_platform(platform).channel)
    return found  # type: ignore[no-any-return]  # as above


async def probe(
    platform: str, account: str, config: Any, route: Callable[[str], Route], clock: Clock, *, alone: bool
) -> AccountReport:
    """Query a platform about an account's settings: who the bot is, which permissions it lacks, what else is wrong.

    config: an instance of `config_class`. route: the network settings for a URL, as in ChannelPorts. alone: no gateway
    of this installation serves the account now, so a connection that only one program may hold is tried as well; where
    a platform allows only one (WeCom), that disconnects another program, as starting the gateway does.

    Consumes and sends no messages; takes seconds. Never raises ChannelError. An empty report for the terminal.
    Raises UnknownPlatform.
    """
    path = _platform(platform).probe
    if not path:
        return AccountReport()
    ask: Callable[..., Awaitable[AccountReport]] = _load(path)
    return await ask(account, config, route, clock, alone=alone)


def name_of(platform: str) -> str:
    """What people call a platform; "" for one that is not in PLATFORMS."""
    known = PLATFORMS.get(platform)
    return known.name if known is not None else ""


def manifest(platform: str, app: str) -> str:
    """The text with which an app of that name is created on the platform. Raises UnknownPlatform, NoManifest."""
    path = _platform(platform).manifest
    if not path:
        raise NoManifest(platform)
    make: Callable[[str], str] = _load(path)
    return make(app)


def _platform(name: str) -> Platform:
    try:
        return PLATFORMS[name]
    except KeyError:
        raise UnknownPlatform(name) from None


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
