"""Incoming webhooks: `POST /hooks/NAME`, by which programs write to a chat or have the agent do something there.

Calls are signed as the Standard Webhooks specification says (https://www.standardwebhooks.com): three headers, an
HMAC-SHA256 over `id.timestamp.body`; or as GitHub signs, an HMAC-SHA256 over the body; or they hold the secret itself
in a header, for programs that cannot sign. Deliveries are committed before the answer, and each is accepted once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import re
import secrets
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from bot.access.admission import FloodGate
from bot.http.errors import HttpProblem, too_many
from bot.operations.sending import SendTool, Unsendable
from bot.store import conversations
from bot.store.identity import conversation_key, hook_sender, native_on
from channels.message import HookCalled, Sender
from harness.text.plain import cut

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from sqlalchemy import Connection

    from bot.http.parts import HttpParts
    from bot.settings.http import HookSettings

log = logging.getLogger(__name__)

TOLERANCE = timedelta(minutes=5)
"""Largest difference between a delivery's time and ours. Duplicates are recognized for much longer."""
LARGEST_BODY = 64 * 1024
"""Size of a body in bytes."""
LONGEST_DATA = 20_000
"""Characters of it that the agent receives."""
PER_MINUTE, AT_ONCE = 60, 30
"""Deliveries of one hook."""
TRIES_PER_MINUTE, TRIES_AT_ONCE = 120, 60
"""Requests of one address with a wrong signature. Others are not delayed by them: they may share a proxy."""
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
GITHUBS, GITHUBS_PREFIX = "x-hub-signature-256", "sha256="
ONCE = "idempotency-key"
MOST_FIELDS = 200
"""Fields of a form."""
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
BODY = {"requestBody": {"content": {JSON: {"schema": {}}, "text/plain": {"schema": {"type": "string"}}}}}
"""OpenAPI's description of a call's body."""
UNVERIFIED = (
    f"there is no such hook, or the secret or form of the call is wrong: it expects {ID} (1 to 100 letters, "
    f"digits, . : _ -), {TIMESTAMP} (seconds since 1970) and {SIGNATURE}; with `signature: github` {GITHUBS}; with "
    "`signature: header` the secret in its header"
)
"""The same for existing and missing hooks, so that their names cannot be found out."""
_ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)
_SECRET = "whsec_"
"""Prefix of a secret whose remainder is base64, as specified; any other secret is used as it is."""


def signature(secret: str, delivery: str, timestamp: int, body: bytes) -> str:
    """The value that a caller has to send as webhook-signature."""
    signed = b".".join((delivery.encode(), str(timestamp).encode(), body))
    digest = hmac.new(_key(secret), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def _key(secret: str) -> bytes:
    if secret.startswith(_SECRET):
        with suppress(ValueError):  # not base64: a secret like any other
            return base64.b64decode(secret.removeprefix(_SECRET), validate=True)
    return secret.encode()


def verified(headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> str:
    """The id of a delivery that is signed as specified. Raises HttpProblem (401) for one not signed with the secret, or
    not recently.

    headers: with names in lower case.
    """
    delivery, stamp, given = (headers.get(name, "") for name in (ID, TIMESTAMP, SIGNATURE))
    if not _ID.fullmatch(delivery) or not (stamp.isascii() and stamp.isdecimal() and len(stamp) <= 12):
        raise refused()
    wanted = signature(secret, delivery, int(stamp), body)
    # Several may be sent while a secret is rotated; each is compared, so that timing reveals nothing.
    fits = [hmac.compare_digest(each.encode(), wanted.encode()) for each in given.split()[:10]]
    if not any(fits):
        raise refused()
    if abs(now.timestamp() - int(stamp)) > TOLERANCE.total_seconds():
        raise refused(f"{TIMESTAMP} is more than {TOLERANCE.total_seconds() / 60:.0f} minutes off: sign again")
    return delivery


def verified_by_github(headers: Mapping[str, str], body: bytes, secret: str) -> str:
    """The id of a delivery that is signed as GitHub signs. Only the body is signed there, so it identifies the
    delivery: the same body again is the same one. Raises HttpProblem (401)."""
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    given = headers.get(GITHUBS, "")
    if not hmac.compare_digest(given.encode(), (GITHUBS_PREFIX + digest).encode()):
        raise refused()
    return f"body:{hashlib.sha256(body).hexdigest()}"


def verified_by_header(headers: Mapping[str, str], secret: str, header: str) -> str:
    """The id of a delivery that holds the secret in that header, also after `Bearer`. Without an id, each call is a
    separate delivery. Raises HttpProblem (401)."""
    given = headers.get(header.lower(), "")
    scheme, _, rest = given.partition(" ")
    told = rest.strip() if scheme.lower() == "bearer" and rest else given
    if not hmac.compare_digest(told.encode(), secret.encode()):
        raise refused()
    ids = (headers.get(name, "") for name in (ID, ONCE))
    return next(filter(_ID.fullmatch, ids), "") or f"call:{secrets.token_hex(16)}"


def delivery_of(hook: HookSettings | None, headers: Mapping[str, str], body: bytes, now: datetime) -> str:
    """The id of a call's delivery, the same when it is sent again. hook: None where there is no such hook, and so it
    fails. Raises HttpProblem (401)."""
    secret = hook.secret.get_secret_value() if hook is not None else secrets.token_hex(32)
    if hook is not None and hook.signature == "github":
        return verified_by_github(headers, body, secret)
    if hook is not None and hook.signature == "header":
        return verified_by_header(headers, secret, hook.header)
    return verified(headers, body, secret, now)


def refused(why: str = UNVERIFIED) -> HttpProblem:
    return HttpProblem(401, "not_verified", why)


def text_of(body: bytes, content_type: str) -> str:
    """The text of a body: of JSON its `text` if it has one, else all of it, of a form a line for each field, otherwise
    the body as it is. Raises HttpProblem."""
    kind = content_type.partition(";")[0].strip().lower()
    try:
        told = body.decode("utf-8-sig")
        text = _json_text(told) if kind == JSON else _form_text(told) if kind == FORM else told
    except (UnicodeDecodeError, ValueError, RecursionError):
        raise HttpProblem(400, "unreadable", "the body does not match its Content-Type, or is not UTF-8") from None
    if not text.strip():
        raise HttpProblem(400, "empty", "the body has no text")
    return text


def _json_text(told: str) -> str:
    parsed: Any = json.loads(told)
    if isinstance(parsed, dict) and isinstance(parsed.get("text"), str):
        parsed = parsed["text"]
    return parsed if isinstance(parsed, str) else f"```json\n{json.dumps(parsed, ensure_ascii=False, indent=2)}\n```"


def _form_text(told: str) -> str:
    """The text of a form. Raises ValueError."""
    fields = parse_qsl(told, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    if [name for name, _ in fields] == ["payload"]:
        return _json_text(fields[0][1])  # as GitHub and Slack send JSON in a form
    if [name for name, _ in fields] == ["text"]:
        return fields[0][1]
    # A list item for each field, so that they are lines in Markdown too; the lines of a value belong to its item.
    return "\n".join(f"- {name}: " + "\n  ".join(value.splitlines()) for name, value in fields if value.strip())


class HookService:
    """Accepts verified deliveries."""

    def __init__(self, parts: HttpParts) -> None:
        self._parts = parts

    async def take(self, name: str, hook: HookSettings, delivery: str, text: str) -> bool:
        """Post the text in the hook's chat, or have the agent do the hook's task; returns once that is committed. False
        where the delivery is known already. Raises HttpProblem."""
        if hook.run is False:
            return await self._say(name, hook, delivery, text)
        event = await self._event(name, hook, hook.run, delivery, text)
        return await self._parts.bus.originate_once(event)

    async def _say(self, name: str, hook: HookSettings, delivery: str, text: str) -> bool:
        parts = self._parts
        tool = SendTool(parts.settings(), parts.store, parts.delivery, parts.presented)
        try:
            return await tool.put(hook.chat, text, f"hook:{name}:{delivery}")
        except Unsendable as error:
            log.warning("webhook %s: %s", name, error)
            raise HttpProblem(409, "not_sendable", "it cannot be posted in the hook's chat; see the log") from error

    async def _event(self, name: str, hook: HookSettings, prompt: str, delivery: str, text: str) -> HookCalled:
        """The event for the inbox: in a direct message in the name of its person, in a group in that of the hook."""
        parts, account = self._parts, hook.chat.partition(":")[0]

        def place(tx: Connection) -> tuple[Any, Any]:
            address = conversations.place_of(tx, hook.chat)
            if address is None:
                return None, None
            return address, conversations.load(tx, conversation_key(address, Sender(id="", display_name=""), "chat"))

        address, row = await parts.store.read(place)
        if address is not None and parts.settings().names_group(account, address.chat):
            address = replace(address, kind="group")
        if address is None or (address.kind == "dm" and row is None):
            log.warning("webhook %s: no one has written to the bot in %s yet", name, hook.chat)
            raise HttpProblem(409, "no_chat", "no one has written to the bot in the hook's chat yet: write there once")
        sender = Sender(id=hook_sender(name), display_name=name)
        if address.kind == "dm":
            sender = Sender(id=native_on(account, row.owner), display_name=name)
        now = parts.clock.now()
        return HookCalled(
            account=account,
            dedupe_keys=(f"h:{name}:{delivery}",),
            sent_at=now,
            received_at=now,
            hook=name,
            address=address,
            sender=sender,
            prompt=prompt,
            text=cut(text, LONGEST_DATA),
        )


def hooks_router(parts: HttpParts) -> APIRouter:
    """The route of webhooks, without sessions and tokens: each hook has its own secret."""
    router, service = APIRouter(tags=["webhooks"]), HookService(parts)
    tries = FloodGate(parts.clock, TRIES_PER_MINUTE, TRIES_AT_ONCE)
    deliveries = FloodGate(parts.clock, PER_MINUTE, AT_ONCE)

    @router.post("/hooks/{name}", status_code=202, summary="Receives a signed call", openapi_extra=BODY)
    async def hook(name: str, request: Request) -> JSONResponse:
        body = await _body(request)
        known = parts.settings().http.hooks.get(name)
        try:
            delivery = delivery_of(known, request.headers, body, parts.clock.now())
            if known is None:
                raise refused()
        except HttpProblem:
            if not tries.passes(request.client.host if request.client is not None else ""):
                raise too_many("too many calls") from None
            raise
        if not deliveries.passes(name):
            raise too_many("too many calls")
        text = text_of(body, request.headers.get("content-type", ""))
        fresh = await service.take(name, known, delivery, text)
        log.info("webhook %s: delivery %s %s", name, delivery, "accepted" if fresh else "already known")
        return JSONResponse({"accepted": True, "duplicate": not fresh}, 202)

    return router


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            raise HttpProblem(413, "too_large", f"a body may have at most {LARGEST_BODY} bytes")
    return bytes(body)
