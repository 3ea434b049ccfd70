"""Checks of a config beyond those of each start: models are built, programs looked up, and the file searched for
secrets written into it. Used by `antler check-config` too."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import shutil
import socket
import ssl
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bot.doctor.findings import Severity, error, note, of_config, ok, warning
from bot.settings.problems import ConfigProblem, dotted
from bot.settings.yamlfile import read_yaml
from channels.registry import OWN
from harness.errors import ModelSetupError, SetupError, imported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sized
    from pathlib import Path

    from bot.doctor.findings import Examined, Finding
    from bot.settings import Settings
    from bot.settings.http import HttpSettings
    from bot.settings.problems import Path as TreePath
    from harness.mcp.config import McpServerSettings


SHORTEST_SECRET = 8
"""Characters; shorter values are what servers without keys are given, such as "none"."""
WRITTEN = "is written in plain text"
DEMO = "demo"
_PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy")
INSTEAD = "put it into an environment variable and write $NAME here"


def summary(settings: Settings, file: Path | None) -> list[Finding]:
    """The config in one line, and settings in it that are allowed but rarely intended."""
    counts = f"{_counted(settings.channels.keys() - OWN, 'account')}, {_counted(settings.models, 'model')}"
    found = [ok("config", f"{file or 'none, so the built-in default'}: {counts}")]
    found += [of_config(problem, Severity.WARNING) for problem in written_secrets(settings, file)]
    if file is not None and len(found) > 1 and file.stat().st_mode & 0o077:
        found.append(warning("config", f"{file} contains secrets and others can read it", f"run: chmod 600 {file}"))
    if file is not None and settings.models[0].use == DEMO:
        found.append(
            note(
                "models", "no model is configured, so the demo model answers", "add one; config.yaml.example shows how"
            )
        )
    found += [*_unencrypted(settings), *_unused_proxies(settings, os.environ)]
    for account in settings.channels:
        if account not in OWN and settings.access_for(account).is_public:
            found.append(note(f"channels.{account}", "answers everyone, as i_accept_public allows"))
    return found


async def page(examined: Examined) -> list[Finding]:
    """The HTTP listener: whether its address is available, and what is missing where others can reach it."""
    http = examined.settings.http
    if http.listen is None:
        return []
    found = [*certificate(http)]
    if not examined.served and (why := await asyncio.to_thread(_taken, http)):
        found.append(error("http.listen", f"cannot listen on {http.listen} ({why})", "choose another port"))
    if http.is_exposed and http.url is None:
        says = "is not set, so links start with an address that others cannot open, and any host name is accepted"
        found.append(warning("http.url", says, "set it to the address that users open, such as https://example.org"))
    if http.url is not None and http.url.startswith("http://") and not _is_near(urlsplit(http.url).hostname or ""):
        found.append(error("http.url", "has no TLS: eavesdroppers can sign in", "start it with https://"))
    if http.is_exposed and http.metrics_token is None:
        found.append(note("http.metrics_token", "is not set, so /metrics is closed", "run: openssl rand -hex 32"))
    return found or [ok("http.listen", f"the page is at {http.root}; antler web prints a sign-in link")]


def certificate(http: HttpSettings) -> Iterator[Finding]:
    if http.tls is None:
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(http.tls.cert, http.tls.key)
    except OSError as failure:  # ssl.SSLError is one
        says = f"cannot be used: {failure.strerror or failure.args[-1]}"
        yield error("http.tls", says, "set cert to the certificate with its chain and key to its private key, both PEM")


def _taken(http: HttpSettings) -> str:
    """Why nothing can listen on that address, "" where that is possible."""
    host, port = http.address
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        socket.create_server(address[:2], family=family).close()
    except OSError as failure:
        return f"{failure.strerror or failure}".lower()
    return ""


def _counted(things: Sized, noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"


def _unencrypted(settings: Settings) -> Iterator[Finding]:
    """Keys that are sent where anyone on the way can read them."""
    fetch, knowledge = settings.web.fetch, settings.knowledge
    asked: dict[str, Any] = {f"models[{index}]": each for index, each in enumerate(settings.models)}
    asked |= {"transcription": settings.transcription, "speech": settings.speech, "images": settings.images}
    asked |= settings.web.search.asked
    asked |= {f"knowledge.{place}": each for place, each in knowledge.endpoints.items()}
    asked |= {f"knowledge.services[{index}]": each for index, each in enumerate(knowledge.services)}
    with_key = [(f"{key}.base_url", each.base_url) for key, each in asked.items() if each and each.api_key]
    with_key += [("web.fetch.reader.url", fetch.reader.url)] if fetch.reader and fetch.reader.api_key else []
    for key, url in with_key:
        parts = urlsplit(url or "")
        if parts.scheme == "http" and not _is_near(parts.hostname or ""):
            yield warning(key, f"sends its api_key to {parts.hostname} without encryption", "start it with https://")


def _is_near(host: str) -> bool:
    """Whether a host is this machine, in its network, or a name known only there."""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".internal", ".lan"))


def _unused_proxies(settings: Settings, env: Mapping[str, str]) -> Iterator[Finding]:
    """Proxies in the environment, which Antler ignores although many expect it to use them."""
    named = [name for name in _PROXY_VARIABLES if env.get(name)]
    if named and settings.network.proxy is None:
        says = "is set, but Antler ignores proxies from the environment: it connects directly"
        yield note(named[0], says, f"set network.proxy: ${named[0]} if direct connections are not possible")


async def unbuilt_models(settings: Settings) -> list[Finding]:
    """The models that cannot be built, by class and settings; none of them is called."""
    # Imported here: what builds models takes a second to import.
    from harness.models.build import build_model

    found = []
    for index, model in enumerate(settings.models):
        key = f"models[{index}]"
        try:
            built = await asyncio.to_thread(build_model, model, settings.model_route(model.name))
        except ModelSetupError as failure:
            found.append(error(key, str(failure), f"correct {key} in the config"))
        else:
            await built.close()
    return found


def unloaded_code(settings: Settings) -> list[Finding]:
    """What is wrong with the operator's own classes and the first of their tools. Imports their modules."""
    from harness.agents.tools import configured_tools  # imported here for the same reason
    from harness.guardrails.rules import load_guardrails

    used = {f"{name}.use": section.use for name in ("speech", "images") if (section := getattr(settings, name))}
    used |= {f"knowledge.services[{at}].use": each.use for at, each in enumerate(settings.knowledge.services)}
    used |= {f"web.search.engines[{at}].use": each.use for at, each in enumerate(settings.web.search.engines)}
    loads: list[Callable[[], object]] = [partial(configured_tools, settings.tools, settings.tool_groups)]
    loads.append(partial(load_guardrails, settings.guardrails))
    loads += [partial(imported, use, key) for key, use in used.items() if ":" in use]
    found = []
    for load in loads:
        try:
            load()
        except SetupError as failure:
            what, _, says = str(failure).partition(": ")
            found.append(error(what, says, f"correct {what} in the config"))
    return found


def programs(settings: Settings) -> list[Finding]:
    """MCP servers whose program is not on this machine."""
    return [
        error(
            f"mcp_servers.{name}.command",
            f"the program {server.command} was not found on this machine",
            "install it, or give its full path",
        )
        for name, server in settings.mcp_servers.items()
        if server.enabled and server.command is not None and not _has_program(server.command, server)
    ]


def _has_program(command: str, server: McpServerSettings) -> bool:
    if os.sep in command and server.cwd is not None:
        return shutil.which(server.cwd / command) is not None
    path = server.env.get("PATH")
    return shutil.which(command, path=path if isinstance(path, str) else None) is not None


def written_secrets(settings: Settings, file: Path | None) -> list[ConfigProblem]:
    """The places where the file holds a secret itself instead of the name of a variable that does."""
    if file is None:
        return []
    tree = read_yaml(file.read_text(encoding="utf-8-sig"))
    secrets = {secret for secret in settings.secrets() if len(secret) >= SHORTEST_SECRET}
    return [
        ConfigProblem(file=str(file), key=dotted(path), message=WRITTEN, line=tree.lines.get(path), suggestion=INSTEAD)
        for path, text in _texts(tree.values, ())
        if any(secret in text for secret in secrets)
    ]


def _texts(value: Any, path: TreePath) -> Iterator[tuple[TreePath, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*path, index))
    elif isinstance(value, str):
        yield path, value
