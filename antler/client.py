"""Clients of the gateway for programs: `Client` over HTTP, `EmbeddedClient` with a gateway of the program's own.

Both have the same calls. What is asked for is an ordinary run: it has the queue, budgets, approvals and memory that a
chat's has, and survives a crash of the gateway. No call sends a message twice. docs/client.md has examples.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import inspect
import ipaddress
import mimetypes
import os
import time
import uuid
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import httpx

from antler.connection import Connection, part
from antler.errors import (
    AntlerError,
    ApprovalRequired,
    Conflict,
    Invalid,
    NotAllowed,
    NotFound,
    NotSignedIn,
    NotStarted,
    RequestFailed,
    RunFailed,
    TooMany,
    Unavailable,
    Unreachable,
)
from antler.following import API, follow, place, waiting
from antler.values import (
    Answer,
    Approval,
    Decision,
    Event,
    File,
    Health,
    Message,
    Progress,
    Question,
    Run,
    Text,
    Thread,
    Upload,
    messages_of,
    thread_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from types import TracebackType

    from antler.values import Strategy
    from bot.settings import Settings

    Approve = Callable[[Approval], Decision | Awaitable[Decision]]

__all__ = [
    "Answer",
    "AntlerError",
    "Approval",
    "ApprovalRequired",
    "Client",
    "Conflict",
    "EmbeddedClient",
    "Event",
    "File",
    "Health",
    "Invalid",
    "Message",
    "NotAllowed",
    "NotFound",
    "NotSignedIn",
    "NotStarted",
    "Progress",
    "Question",
    "RequestFailed",
    "Run",
    "RunFailed",
    "Text",
    "Thread",
    "TooMany",
    "Unavailable",
    "Unreachable",
    "Upload",
]

DEFAULT_URL = "http://127.0.0.1:8642"
TIMEOUT = 60.0
"""Seconds without a byte of an answer."""
CHUNK = 256 * 1024


class Client:
    """Asks a gateway over HTTP; used with `async with`.

    url: of the gateway, with the path that it may have; default: the variable ANTLER_URL, else this machine's port
    8642.
    token: one of `antler token create`; default: the variable ANTLER_TOKEN.
    retry_seconds: how long to try again while there is no answer: through a restart of the gateway, for example.
    transport: httpx's, for certificates and proxies of your own.

    Calls raise RequestFailed, by kind, where the gateway refuses something, and Unreachable where none answers.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retry_seconds: float = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = (url or os.environ.get("ANTLER_URL") or DEFAULT_URL).rstrip("/")
        self._token = token or os.environ.get("ANTLER_TOKEN", "")
        self._retry_seconds = retry_seconds
        self._transport = transport
        self._stack = AsyncExitStack()
        self._open: Connection | None = None

    async def __aenter__(self) -> Self:
        self._open = await self._connected(self._url, self._token, self._transport)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open = None
        await self._stack.aclose()

    async def _connected(self, url: str, token: str, transport: httpx.AsyncBaseTransport | None) -> Connection:
        if not token:
            raise ValueError("no token: `antler token create NAME` makes one; give it here, or as ANTLER_TOKEN")
        http = httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=TIMEOUT,
            limits=httpx.Limits(max_connections=None),  # a stream holds one as long as its run
            transport=transport,
            trust_env=not _is_here(url),  # what is on this machine is not asked for through a proxy
        )
        return Connection(await self._stack.enter_async_context(http), self._retry_seconds)

    @property
    def _connection(self) -> Connection:
        if self._open is None:
            raise RuntimeError("the client is not open: use it within `async with`")
        return self._open

    # Asking.

    async def ask(
        self, text: str, *, thread: str | None = None, approve: Approve | None = None, **options: Any
    ) -> Answer:
        """Say something and return the answer.

        thread: the id of the thread in which it is said; None: a new one.
        approve: decides tool calls that wait for a person; without it such a call raises ApprovalRequired, and the run
        waits until it is decided.
        options: those of `start`.

        Raises RunFailed where there is no answer.
        """
        run = await self.start(text, thread=thread, **options)
        return await self.wait(run.thread_id, run.run_id, approve=approve)

    async def stream(self, text: str, *, thread: str | None = None, **options: Any) -> AsyncGenerator[Event, None]:
        """Say something and follow its run: see `start` and `follow`."""
        run = await self.start(text, thread=thread, **options)
        async with aclosing(self.follow(run.thread_id, run.run_id)) as events:
            async for event in events:
                yield event

    async def start(
        self,
        text: str,
        *,
        thread: str | None = None,
        agent: str = "default",
        files: Sequence[Upload] = (),
        multitask_strategy: Strategy = "enqueue",
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Run:
        """Say something, and return the run that is to answer as soon as it is committed.

        agent: who answers in that thread from now on.
        files: of `upload`.
        multitask_strategy: what becomes of a run that works in the thread.
        key: your own name of this message, up to 100 characters without a space; said again under the same key in the
        same thread it is the same run. Without a thread the key names that too, so that a program which was killed may
        just ask again.
        """
        if thread is None:
            thread = str(uuid.uuid4() if key is None else uuid.uuid5(uuid.NAMESPACE_URL, f"antler:{key}"))
        parts = [{"type": "file", "file": {"file_id": each.id}} for each in files]
        content: Any = [{"type": "text", "text": text}, *parts] if parts else text
        body = {
            "assistant_id": agent,
            "input": {"messages": [{"role": "user", "content": content}]},
            "metadata": dict(metadata or {}),
            "multitask_strategy": multitask_strategy,
            "if_not_exists": "create",
        }
        once = {"Idempotency-Key": key or uuid.uuid4().hex}
        answer = await self._connection.ask("POST", f"{API}/threads/{part(thread)}/runs", json=body, headers=once)
        told = answer.json()
        return Run(thread_id=told["thread_id"], run_id=told["run_id"])

    def follow(self, thread_id: str, run_id: str) -> AsyncGenerator[Event, None]:
        """Yield what a run tells, from its beginning to its Answer.

        A lost connection, and a restart of the gateway, are got over: nothing is told twice. After an Approval the
        events go on once somebody has decided, be it within the loop. Raises RunFailed.
        """
        return follow(self._connection, Run(thread_id=thread_id, run_id=run_id))

    async def wait(self, thread_id: str, run_id: str, *, approve: Approve | None = None) -> Answer:
        """The answer of a run, once it has ended. approve: as of `ask`. Raises RunFailed, ApprovalRequired."""
        async with aclosing(self.follow(thread_id, run_id)) as events:
            async for event in events:
                if isinstance(event, Answer):
                    return event
                if isinstance(event, Approval):
                    if approve is None:
                        raise ApprovalRequired(event)
                    decision = approve(event)
                    await self.decide(event, await decision if inspect.isawaitable(decision) else decision)
        raise RuntimeError("a run's events end with its answer")

    async def stop(self, thread_id: str, run_id: str) -> None:
        """End a run, wherever it is; nothing happens to one that has ended."""
        await self._connection.ask("POST", f"{place(Run(thread_id=thread_id, run_id=run_id))}/cancel")

    # What waits for a person.

    async def waiting(self, thread_id: str) -> list[Approval | Question]:
        """What a thread waits for: tool calls to be decided, or a question."""
        return await waiting(self._connection, thread_id)

    async def decide(self, approval: Approval | str, decision: Decision, reason: str = "") -> bool:
        """Answer a request for approval. reason: of a denial, told to the agent. False where it was decided before, or
        its time is over."""
        name = approval if isinstance(approval, str) else approval.id
        body = {"decision": decision, "reason": reason}
        answer = await self._connection.ask("POST", f"/api/approvals/{part(name)}", json=body)
        return bool(answer.json()["done"] != "over")

    # Threads.

    async def create_thread(self, metadata: Mapping[str, Any] | None = None) -> Thread:
        """A new thread; `ask` and `start` make one by themselves."""
        body = {"thread_id": str(uuid.uuid4()), "if_exists": "do_nothing", "metadata": dict(metadata or {})}
        return thread_of((await self._connection.ask("POST", f"{API}/threads", json=body)).json())

    async def threads(
        self, *, limit: int = 20, offset: int = 0, metadata: Mapping[str, Any] | None = None
    ) -> list[Thread]:
        """Your threads, the one that was used last first. limit: up to 100. metadata: only those with these members."""
        wanted = ["thread_id", "status", "metadata", "created_at", "updated_at"]
        body = {"limit": limit, "offset": offset, "metadata": dict(metadata or {}), "select": wanted}
        return [
            thread_of(each) for each in (await self._connection.ask("POST", f"{API}/threads/search", json=body)).json()
        ]

    async def history(self, thread_id: str) -> list[Message]:
        """What was said in a thread, oldest first, with the results of tools."""
        told = (await self._connection.ask("GET", f"{API}/threads/{part(thread_id)}/state")).json()
        return messages_of(told["values"])

    async def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with its messages and files. Nothing happens where there is none."""
        with suppress(NotFound):  # also where an earlier try has done it
            await self._connection.ask("DELETE", f"{API}/threads/{part(thread_id)}")

    # Files.

    async def upload(self, file: Path | str | bytes, name: str = "", mime_type: str = "") -> Upload:
        """Send a file for a message that comes next: give the result to `ask`, `stream` or `start`.

        file: its path, or its bytes. name: as the agent sees it; default: that of the path.
        """
        name = name or ("file" if isinstance(file, bytes) else Path(file).name)
        mime_type = mime_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
        told = await self._connection.ask(
            "POST",
            "/api/uploads",
            params={"name": name},
            headers={"Content-Type": mime_type},
            content=lambda: _chunks(file),
        )
        found = told.json()
        return Upload(id=found["id"], name=found["name"], kind=found["kind"], size=found["size"])

    async def fetch(self, file: File) -> bytes:
        """A file of an answer."""
        path = f"{place(Run(thread_id=file.thread_id, run_id=file.run_id))}/file"
        return (await self._connection.ask("GET", path, params={"path": file.path})).content

    # The gateway.

    async def health(self) -> Health:
        """Whether all is well."""
        told = (await self._connection.ask("GET", "/api/health")).json()
        return Health(**{each.name: told[each.name] for each in fields(Health)})

    async def agents(self) -> list[str]:
        """The names of the agents."""
        told = await self._connection.ask("POST", f"{API}/assistants/search", json={"limit": 1000})
        return [each["assistant_id"] for each in told.json()]

    async def send(self, text: str, *, hook: str, secret: str, key: str | None = None) -> bool:
        """Say something in a chat, through the webhook of that name (docs/webhooks.md). secret: the hook's. key: your
        own name of this message; a second one with the same key is not sent. False where it was accepted before."""
        body, name = text.encode(), key or uuid.uuid4().hex
        stamp = str(int(time.time()))
        signed = b".".join((name.encode(), stamp.encode(), body))
        digest = hmac.new(_hook_key(secret), signed, hashlib.sha256).digest()
        headers = {
            "webhook-id": name,
            "webhook-timestamp": stamp,
            "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
            "Content-Type": "text/plain; charset=utf-8",
        }
        answer = await self._connection.ask(
            "POST", f"/hooks/{part(hook)}", content=lambda: _chunks(body), headers=headers
        )
        return not answer.json()["duplicate"]


class EmbeddedClient(Client):
    """Has a gateway of its own in this process, without a listener; used with `async with`, with the calls of `Client`.

    config: the path of a config file, or bot.settings.Settings; None: the built-in settings, with the demo model.
    name: of the program, in small letters, digits and dashes: its threads and memory are those of the person
    `api:NAME`.
    platforms: the config's accounts connect as well, so that people are answered too.

    It holds the data folder as `antler run` does, so that only one of them runs at a time. Entering raises NotStarted.
    Leaving puts runs that work aside: the next gateway of that folder goes on with them.
    """

    def __init__(
        self, config: Settings | Path | str | None = None, *, name: str = "embedded", platforms: bool = False
    ) -> None:
        super().__init__("http://127.0.0.1", "none", retry_seconds=10.0)
        self._config = config
        self._name = name
        self._platforms = platforms

    async def __aenter__(self) -> Self:
        # The whole gateway: who asks one over HTTP need not import it.
        from antler.embedded import started

        try:
            token, transport = await started(self._stack, self._config, self._name, platforms=self._platforms)
            self._open = await self._connected(self._url, token, transport)
        except BaseException:
            await self._stack.aclose()
            raise
        return self


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _chunks(file: Path | str | bytes) -> AsyncIterator[bytes]:
    if isinstance(file, bytes):
        yield file
        return
    with await asyncio.to_thread(open, file, "rb") as opened:
        while chunk := await asyncio.to_thread(opened.read, CHUNK):
            yield chunk


def _hook_key(secret: str) -> bytes:
    """A secret that begins with `whsec_` is base64 behind it, as the Standard Webhooks specification has it."""
    if secret.startswith("whsec_"):
        with suppress(ValueError):  # no base64: it is a secret like any other
            return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    return secret.encode()
