"""Checks that need the network: platforms, model providers, a transcription service, servers of tools, proxies, the
clocks of other machines."""

from __future__ import annotations

import asyncio
import io
import os
import wave
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp

from bot.clock import SystemClock
from bot.doctor import parts
from bot.doctor.config import DEMO
from bot.doctor.findings import Finding, Severity, error, note, ok, warning
from bot.voice.audio import TranscriptionError, kind_of
from bot.voice.service import TranscriptionService
from channels.base import Route
from channels.errors import ChannelError
from channels.network import http_session, tls_context, usable_proxy
from channels.registry import name_of
from channels.registry import probe as ask_platform
from harness.errors import ToolSetupError
from harness.events import FailureKind
from harness.knowledge.port import Asker, KnowledgeFailed, Unbilled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.doctor.findings import Examined
    from bot.settings import Settings
    from bot.voice.audio import Untranscribed
    from harness.config import ModelSettings
    from harness.media.services import MediaFailure
    from harness.web.search.several import Named

ACCOUNT_SECONDS = 20.0
MODEL_SECONDS = 90.0
"""Long enough for a local server that has to load the model first."""
PROXY_SECONDS = 5.0
QUERY = "lighthouse"
"""The query for search engines."""
DOCTOR = Asker(speaker="doctor")
SLOW_SECONDS = 8.0
"""Seconds until an answer begins, from which on people wonder."""
APART, FAR_APART = 30.0, 300.0
"""Differences between clocks, in seconds: reminders arrive at the wrong time; and TLS or a platform refuses."""
_REMEDIES: Mapping[Untranscribed, str] = {
    "key": "set transcription.api_key to a key of this provider",
    "model": "set transcription.model to a name that the provider lists; base_url usually ends in /v1",
    "quota": "the provider's account has no credit left: top it up",
    "busy": "the provider is limiting calls: try again later",
    "garbage": "transcription.base_url is not a service of this kind: it usually ends in /v1",
}


async def accounts(examined: Examined) -> list[Finding]:
    """Each account, as its platform sees it; those held by the running gateway are left alone."""
    names = examined.settings.channels
    found = await asyncio.gather(*(_account(examined, account) for account in names))
    return [finding for one in found for finding in one]


async def _account(examined: Examined, account: str) -> list[Finding]:
    settings = examined.settings
    channel = settings.channels[account]
    key = f"channels.{account}"
    if channel.type == "console":
        return [ok(key, "the terminal needs no platform")]
    route = partial(settings.account_route, account)
    alone = not examined.served
    try:
        async with asyncio.timeout(ACCOUNT_SECONDS):
            report = await ask_platform(channel.type, account, channel.adapter, route, SystemClock(), alone=alone)
    except TimeoutError:
        says = f"{name_of(channel.type)} did not answer within {ACCOUNT_SECONDS:.0f} s"
        return [error(key, says, f"check whether this machine can reach it, and {key}.proxy or network.proxy")]
    found = [
        Finding(Severity.ERROR if problem.fatal else Severity.WARNING, key, problem.what, problem.remedy)
        for problem in report.problems
    ]
    if report.identity is not None:
        who = f"{report.identity.username or 'the bot'} ({report.identity.bot_id})"
        place = f" in {report.place}" if report.place else ""
        took = f", answered in {report.seconds:.1f} s" if report.seconds is not None else ""
        found.insert(0, ok(key, f"{name_of(channel.type)} knows it as {who}{place}{took}"))
    return [*found, *(note(key, text) for text in report.notes)]


async def models(examined: Examined) -> list[Finding]:
    """Each model: whether it answers, streams, calls tools and, where that is declared, sees; and how fast."""
    settings = examined.settings
    asked = (_model(settings, index, model) for index, model in enumerate(settings.models))
    return [finding for found in await asyncio.gather(*asked) for finding in found]


async def _model(settings: Settings, index: int, model: ModelSettings) -> list[Finding]:
    from harness.models.probe import probe  # builds models, which takes a second to import

    what, key = f"model {model.name}", f"models[{index}]"
    if model.use == DEMO:
        return [ok(what, "the demo model, which needs no provider")]
    try:
        async with asyncio.timeout(MODEL_SECONDS):
            report = await probe(model, settings.model_route(model.name), key)
    except TimeoutError:
        return [error(what, f"did not answer within {MODEL_SECONDS:.0f} s", f"check whether {key}.base_url is up")]
    found = [
        Finding(Severity.ERROR if problem.fatal else Severity.WARNING, what, problem.what, problem.remedy)
        for problem in report.problems
    ]
    if report.first_word is None:
        return found
    abilities = {"streams": report.streams, "calls tools": report.calls_tools, "sees": report.sees}
    able = ", ".join(name for name, can in abilities.items() if can) or "answers"
    says = f"{able}; its first word arrived after {report.first_word:.1f} s"
    if report.first_word > SLOW_SECONDS:
        remedy = "use a faster or nearer model; `thinking: false` if it thinks first"
        return [warning(what, says, remedy), *found]
    return [ok(what, says), *found]


async def transcription(examined: Examined) -> list[Finding]:
    """Whether the service accepts half a second of silence."""
    settings = examined.settings.transcription
    if settings is None:
        return []
    proxy, ca_file = examined.settings.network_route(settings.base_url)
    service = TranscriptionService(settings, Route(proxy=proxy, ca_file=ca_file), SystemClock(), 1)
    recording = _silence()
    try:
        async with asyncio.timeout(ACCOUNT_SECONDS):
            await service.transcribe(recording, kind_of(recording, "audio/wav"))
    except TimeoutError:
        return [error("transcription", f"no answer within {ACCOUNT_SECONDS:.0f} s", _reach("transcription.base_url"))]
    except TranscriptionError as failure:
        remedy = _REMEDIES.get(failure.reason, _reach("transcription.base_url"))
        return [error("transcription", f"{failure.reason.replace('_', ' ')}: {failure}", remedy)]
    finally:
        await service.close()
    return [ok("transcription", f"{settings.model} accepts recordings")]


async def speech(examined: Examined) -> list[Finding]:
    """Whether the service speaks one word."""
    settings = examined.settings.speech
    if settings is None:
        return []
    from harness.media.services import MediaFailure, make_speaker  # imports OpenAI's client

    try:
        service = make_speaker(settings, examined.settings.network_route(settings.base_url), SystemClock())
    except ToolSetupError as failure:
        return [error("speech", str(failure), "correct speech.use")]
    try:
        async with asyncio.timeout(ACCOUNT_SECONDS):
            spoken = await service.say("Hello.", settings.voice, "mp3")
    except TimeoutError:
        return [error("speech", f"no answer within {ACCOUNT_SECONDS:.0f} s", _reach("speech.base_url"))]
    except MediaFailure as failure:
        return [_not_made("speech", failure)]
    finally:
        await service.close()
    return [ok("speech", f"{settings.model} speaks as {settings.voice} ({len(spoken)} bytes)")]


async def images(examined: Examined) -> list[Finding]:
    """Whether the service accepts the key, and knows the model where it lists any; a picture would cost money."""
    settings = examined.settings.images
    if settings is None or settings.use:
        return []
    from harness.media.services import ImageService, MediaFailure

    service = ImageService(settings, examined.settings.network_route(settings.base_url), SystemClock())
    try:
        async with asyncio.timeout(ACCOUNT_SECONDS):
            listed = await service.models()
    except TimeoutError:
        return [error("images", f"no answer within {ACCOUNT_SECONDS:.0f} s", _reach("images.base_url"))]
    except MediaFailure as failure:
        if failure.kind is not FailureKind.NOT_FOUND:
            return [_not_made("images", failure)]
        return [note("images", "the service lists no models; no picture was requested, as that would cost money")]
    finally:
        await service.close()
    if settings.model not in listed:
        return [warning("images", f"the service does not list {settings.model}", "correct images.model")]
    return [ok("images", f"{settings.model} is available; no picture was requested, as that would cost money")]


def _not_made(section: str, failure: MediaFailure) -> Finding:
    """The finding for a service of pictures or speech that failed."""
    remedies = {
        FailureKind.AUTH: f"set {section}.api_key to a key of this provider",
        FailureKind.NOT_FOUND: f"set {section}.model to a name that the provider lists; base_url usually ends in /v1",
        FailureKind.BAD_RESPONSE: f"{section}.base_url is not a service of this kind: it usually ends in /v1",
        FailureKind.BAD_REQUEST: f"check whether {section}.model, its voice and its options fit together",
        FailureKind.QUOTA: "the provider's account has no credit left: top it up",
        FailureKind.RATE_LIMITED: "the provider is limiting calls: try again later",
    }
    says = str(failure).partition(":")[0]
    return error(section, says, remedies.get(failure.kind, _reach(f"{section}.base_url")))


async def search(examined: Examined) -> list[Finding]:
    """Whether each search engine answers a query."""
    engines, wrong = await parts.search_engines(examined.settings)
    try:
        return [*wrong, *await asyncio.gather(*map(_searched, engines))]
    finally:
        for each in engines:
            await each.engine.close()


async def _searched(each: Named) -> Finding:
    from harness.web.addresses import WebError
    from harness.web.search.port import SearchFailed

    begun = SystemClock().monotonic()
    try:
        async with asyncio.timeout(ACCOUNT_SECONDS):
            found = await each.engine.search(QUERY, 3, "doctor")
    except TimeoutError:
        return error(each.place, f"{each.name} did not answer within {ACCOUNT_SECONDS:.0f} s", _reach(each.place))
    except WebError as failure:
        reason = failure.reason if isinstance(failure, SearchFailed) else str(failure)
        return error(each.place, f"{each.name} {reason}", _reach(each.place))
    took = f"{SystemClock().monotonic() - begun:.1f} s"
    if not found:
        return warning(each.place, f"{each.name} finds nothing for {QUERY!r}", "try a search with it by hand")
    return ok(each.place, f"{each.name} answered in {took}")


async def knowledge(examined: Examined) -> list[Finding]:
    """Whether the embeddings endpoint returns vectors, and each service answers."""
    settings = examined.settings.knowledge
    if not settings.enabled:
        return []
    from harness.knowledge.embeddings import Embeddings  # imports an HTTP client
    from harness.knowledge.services import make_services

    found, route = [], examined.settings.network_route
    if settings.embeddings is not None:
        endpoint = Embeddings(settings.embeddings, route, "knowledge.embeddings", Unbilled())
        try:
            (vector,) = await endpoint.vectors([QUERY], DOCTOR)
            found.append(ok("knowledge.embeddings", f"{endpoint.name} returns vectors of {len(vector)} numbers"))
            if endpoint.estimates:
                found.append(note("knowledge.embeddings", "reports no usage, so tokens and cost are estimated"))
        except KnowledgeFailed as failure:
            found.append(error("knowledge.embeddings", _clause(failure), _reach("knowledge.embeddings.base_url")))
        finally:
            await endpoint.close()
    try:
        services = await asyncio.to_thread(make_services, settings, route, Unbilled())
    except ToolSetupError as failure:
        what, _, says = str(failure).partition(": ")
        return [*found, error(what, says, "docs/knowledge.md lists the services")]
    for number, service in enumerate(services):
        key = f"knowledge.services[{number}]"
        try:
            hits = await service.search(QUERY, 1, DOCTOR)
            found.append(ok(key, f"{service.name} answers{'' if hits else ', but finds nothing for ' + QUERY}"))
        except KnowledgeFailed as failure:
            found.append(error(key, str(failure), _reach(f"{key}.base_url")))
        finally:
            await service.close()
    return found


def _clause(failure: KnowledgeFailed) -> str:
    """What failed, without the key that is shown in front of it anyway."""
    return str(failure).partition(": ")[2] or str(failure)


def _silence() -> bytes:
    """Half a second of silence, as a WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as recording:
        recording.setnchannels(1)
        recording.setsampwidth(2)
        recording.setframerate(16_000)
        recording.writeframes(bytes(16_000))
    return file.getvalue()


def _reach(key: str) -> str:
    return f"check whether this machine can reach {key}, and network.proxy and ca_file"


async def servers(examined: Examined) -> list[Finding]:
    """MCP servers elsewhere; a running gateway is connected to them and has reported their state."""
    remote = {name: each for name, each in examined.settings.mcp_servers.items() if each.transport != "stdio"}
    return await parts.servers(examined, remote)


async def proxies(examined: Examined) -> list[Finding]:
    """Whether a server listens at each configured proxy."""
    settings = examined.settings
    given = {"network.proxy": settings.network.proxy}
    given |= {f"channels.{account}.proxy": channel.proxy for account, channel in settings.channels.items()}
    found = []
    for key, secret in given.items():
        parsed = urlsplit(secret.get_secret_value()) if secret is not None else None
        if parsed is None or parsed.hostname is None:
            continue
        where = f"{parsed.hostname}:{parsed.port or (443 if parsed.scheme == 'https' else 80)}"
        try:
            async with asyncio.timeout(PROXY_SECONDS):
                _, writer = await asyncio.open_connection(*where.rsplit(":", 1))
            writer.close()
        except (OSError, TimeoutError) as failure:
            why = "no answer" if isinstance(failure, TimeoutError) else _reason(failure)
            found.append(error(key, f"nothing answers at {where} ({why})", f"correct {key}, or start the proxy"))
        else:
            found.append(ok(key, f"{where} accepts connections"))
    return found


def _reason(failure: OSError) -> str:
    """The system's words for the failure; asyncio's own repeat the address."""
    if failure.errno is not None and failure.errno > 0:
        return os.strerror(failure.errno)
    return failure.strerror or type(failure).__name__


async def clock(examined: Examined) -> list[Finding]:
    """The time here compared with that of a server that is queried anyway; nothing where none states the time."""
    settings = examined.settings
    for url, route in _services(settings):
        with suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError, ChannelError):
            there = await _date(url, route)
            if there is not None:
                return [difference((datetime.now(UTC) - there).total_seconds(), urlsplit(url).hostname or url)]
    return []


def _services(settings: Settings) -> list[tuple[str, Route]]:
    urls = [model.base_url for model in settings.models if model.base_url]
    urls += [str(url) for each in settings.channels.values() if (url := getattr(each.adapter, "base_url", None))]
    routes = (settings.network_route(url) for url in urls)
    return [(url, Route(proxy=proxy, ca_file=ca_file)) for url, (proxy, ca_file) in zip(urls, routes, strict=True)]


async def _date(url: str, route: Route) -> datetime | None:
    context = tls_context(route, "clock") if url.startswith("https:") else None
    timeout = aiohttp.ClientTimeout(total=PROXY_SECONDS)
    async with (
        http_session(1, context, proxy=usable_proxy(route, "clock"), timeout=timeout) as session,
        session.head(url, allow_redirects=False) as answer,
    ):
        date = answer.headers.get("Date")
    return None if date is None else parsedate_to_datetime(date)


def difference(seconds: float, host: str) -> Finding:
    """How far the clock here is ahead of another one, and what follows from that."""
    if abs(seconds) < APART:
        return ok("clock", f"agrees with that of {host}")
    says = f"is {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} that of {host}"
    remedy = "set the time and keep it synchronized: timedatectl set-ntp true"
    return error("clock", says, remedy) if abs(seconds) >= FAR_APART else warning("clock", says, remedy)
