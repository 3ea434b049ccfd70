"""The routes of the reference server, as described in openapi.yaml."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import socket
from collections import deque
from typing import TYPE_CHECKING, TypeVar

from aiohttp import web
from pydantic import TypeAdapter

from sandbox.base import FileInfo, FileText, Hits, Problem, SandboxError
from sandbox.remote import wire
from sandbox.remote.server.rooms import Refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from aiohttp.typedefs import Handler

    from sandbox.base import CommandResult, Entries, Report, Sandbox, Updated
    from sandbox.remote.server.config import ServerLimits
    from sandbox.remote.server.rooms import Rooms
    from sandbox.remote.server.skills import SkillStore


B = TypeVar("B", bound=wire.Body)
T = TypeVar("T")
log = logging.getLogger(__name__)
STATUS = {
    wire.BAD_REQUEST: 400,
    wire.UNAUTHORIZED: 401,
    wire.NO_SUCH_SANDBOX: 404,
    wire.USED: 409,
    wire.TOO_LARGE: 413,
    wire.BUSY: 429,
    wire.FAILED: 500,
    wire.STOPPING: 503,
}
_CHUNK = 1 << 20

_MOST_WAITING = 1 << 18
"""Maximum characters of waiting output; in a flood, newer output replaces what a slow client has not read yet."""


class ClientGone(ConnectionError):
    """The client has stopped reading, or its machine does not answer."""


class Lines:
    """A stream. alive: seconds between signs of life. stalled: seconds without reads until a client counts as gone."""

    def __init__(self, request: web.Request, *, alive: float, stalled: float) -> None:
        self._request = request
        self._alive = alive
        self._stalled = stalled
        self._response = web.StreamResponse(headers={"Content-Type": wire.LINES, "X-Accel-Buffering": "no"})

    async def begin(self) -> None:
        """Begin the response. A silently vanished machine is detected, too (TCP_USER_TIMEOUT, tcp(7))."""
        transport = self._request.transport
        if transport is not None:
            connection: socket.socket = transport.get_extra_info("socket")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(self._stalled * 1000))
        await self._response.prepare(self._request)

    async def send(self, event: Mapping[str, object]) -> None:
        """Send an event. Raises ConnectionError."""
        try:
            async with asyncio.timeout(self._stalled):
                await self._response.write(wire.dumped(event) + b"\n")
        except TimeoutError:
            raise ClientGone from None

    async def end(self, event: Mapping[str, object]) -> web.StreamResponse:
        await self.send(event)
        await self._response.write_eof()
        return self._response

    async def follow(self, output: Output, work: asyncio.Task[object]) -> None:
        """Send output as it arrives, until the work is done."""
        while not work.done() or output.waiting:
            if output.waiting:
                await self.send({"output": output.take()})
            elif not await output.more(work, self._alive):
                await self.send({})


class Output:
    """A buffer for a command's output between the sandbox and the client."""

    def __init__(self) -> None:
        self._pieces: deque[str] = deque()
        self._size = 0
        self._come = asyncio.Event()

    def __call__(self, piece: str) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        while self._size > _MOST_WAITING and len(self._pieces) > 1:
            self._size -= len(self._pieces.popleft())
        self._come.set()

    @property
    def waiting(self) -> bool:
        return bool(self._pieces)

    def take(self) -> str:
        text = "".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        self._come.clear()
        return text

    async def more(self, work: asyncio.Task[object], seconds: float) -> bool:
        """Wait for output or for the end of the work; returns whether one of them occurred in time."""
        coming = asyncio.ensure_future(self._come.wait())
        try:
            done, _ = await asyncio.wait({coming, work}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            coming.cancel()
        return bool(done)


class Api:
    """The API. report: of the provider behind `rooms`; everyone with the token can read it. skills: what it shows."""

    def __init__(self, rooms: Rooms, skills: SkillStore, report: Report, token: str, limits: ServerLimits) -> None:
        self._rooms = rooms
        self._skills = skills
        self._report = report
        self._token = token.encode()
        self._limits = limits

    def app(self) -> web.Application:
        app = web.Application(
            middlewares=[self._translated, self._authenticated], client_max_size=self._limits.request_mb << 20
        )
        one = f"{wire.PREFIX}/sandboxes/{{sandbox:{wire.SANDBOX_ID}}}"
        command = f"{one}/commands/{{command:{wire.COMMAND_ID}}}"
        app.add_routes(
            [
                web.get(wire.PREFIX, self._welcome, allow_head=False),
                web.get(f"{wire.PREFIX}/sandboxes", self._list, allow_head=False),
                web.get(f"{wire.PREFIX}/kept", self._kept, allow_head=False),
                web.get(f"{wire.PREFIX}/kept/{{sandbox:{wire.SANDBOX_ID}}}", self._keeps, allow_head=False),
                web.put(one, self._open),
                web.get(one, self._find, allow_head=False),
                web.delete(one, self._destroy),
                web.post(f"{one}/release", self._release),
                web.put(f"{one}/skills", self._show_skills),
                web.put(f"{wire.PREFIX}/skills/{{digest:{wire.SKILLS_DIGEST}}}", self._keep_skills),
                web.post(command, self._execute),
                web.delete(command, self._cancel),
                web.post(f"{one}/files/read", self._file(wire.ReadBody, wire.FILE_TEXT, _read)),
                web.post(f"{one}/files/fetch", self._fetch),
                web.post(f"{one}/files/write", self._file(wire.WriteBody, wire.FILE_INFO, _write)),
                web.post(f"{one}/files/update", self._file(wire.UpdateBody, wire.UPDATED, _update)),
                web.post(f"{one}/files/list", self._file(wire.ListBody, wire.ENTRIES, _list)),
                web.post(f"{one}/files/glob", self._file(wire.GlobBody, wire.ENTRIES, _glob)),
                web.post(f"{one}/files/grep", self._file(wire.GrepBody, wire.HITS, _grep)),
            ]
        )
        return app

    # Before every route, including nonexistent ones

    @web.middleware
    async def _translated(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except Refusal as refusal:
            return refused(refusal.code, refusal.text)
        except wire.Malformed as error:
            return refused(wire.BAD_REQUEST, f"invalid request: {error}")
        except web.HTTPRequestEntityTooLarge:
            return refused(wire.TOO_LARGE, f"a request may have at most {self._limits.request_mb} MB")
        except web.HTTPClientError as error:
            code = wire.NOT_FOUND if error.status == 404 else wire.BAD_REQUEST
            return answered({"error": _error(code, error.reason.lower())}, error.status)
        except SandboxError as error:
            log.warning("sandbox error: %s %s", error, error.hint)
            return refused(wire.FAILED, str(error), error.hint)

    @web.middleware
    async def _authenticated(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        right = hmac.compare_digest(token.strip().encode(errors="replace"), self._token)
        if scheme.lower() != "bearer" or not right:
            log.warning("request from %s with a missing or wrong token", request.remote)
            answer = refused(wire.UNAUTHORIZED, "the token is missing or wrong")
            answer.headers["WWW-Authenticate"] = "Bearer"
            return answer
        return await handler(request)

    # Sandboxes

    async def _welcome(self, request: web.Request) -> web.Response:
        welcome = wire.Welcome(version=wire.VERSION, report=self._report, skills=True, kept=True)
        return answered(welcome.model_dump(mode="json"))

    async def _list(self, request: web.Request) -> web.Response:
        return answered({"sandboxes": self._rooms.open_ones()})

    async def _kept(self, request: web.Request) -> web.Response:
        return answered(wire.Kept(sandboxes=await self._rooms.kept()).model_dump())

    async def _keeps(self, request: web.Request) -> web.Response:
        return answered(wire.Keeps(kept=await self._rooms.keeps(request.match_info["sandbox"])).model_dump())

    async def _open(self, request: web.Request) -> web.Response:
        identifier = request.match_info["sandbox"]
        new = await self._rooms.open(identifier)
        return answered({"id": identifier}, status=201 if new else 200)

    async def _find(self, request: web.Request) -> web.Response:
        identifier = request.match_info["sandbox"]
        if not self._rooms.is_open(identifier):
            raise Refusal(wire.NO_SUCH_SANDBOX, "this sandbox does not exist here; PUT creates it")
        return answered({"id": identifier, "commands": self._rooms.commands_of(identifier)})

    async def _release(self, request: web.Request) -> web.Response:
        await self._rooms.release(request.match_info["sandbox"])
        return web.Response(status=204)

    async def _destroy(self, request: web.Request) -> web.Response:
        await self._rooms.destroy(request.match_info["sandbox"])
        self._skills.forget(request.match_info["sandbox"])
        return web.Response(status=204)

    # Skills

    async def _show_skills(self, request: web.Request) -> web.Response:
        body = await _body(request, _SKILLS)
        wanted = await self._skills.tell(request.match_info["sandbox"], body.places)
        return answered(wire.Wanted(wanted=wanted).model_dump())

    async def _keep_skills(self, request: web.Request) -> web.Response:
        await self._skills.put(request.match_info["digest"], await _body(request, _SKILL_FILES))
        return web.Response(status=204)

    # Commands

    async def _execute(self, request: web.Request) -> web.StreamResponse:
        """Run a command. It ends with its connection: this handler is cancelled when that is gone."""
        body = await _body(request, _COMMAND)
        identifier, command = request.match_info["sandbox"], request.match_info["command"]
        output = Output()
        with self._rooms.using(identifier) as sandbox:
            work = sandbox.execute_command(body.command, timeout=body.timeout, on_output=output)
            running = self._rooms.begin(identifier, command, work)
            try:
                lines = self._lines(request)
                await lines.begin()
                await lines.follow(output, running)
                return await lines.end(_ended(running))
            finally:
                await self._rooms.cancel(identifier, command)

    async def _cancel(self, request: web.Request) -> web.Response:
        await self._rooms.cancel(request.match_info["sandbox"], request.match_info["command"])
        return web.Response(status=204)

    # Files

    def _file(
        self,
        kind: type[B],
        answer: TypeAdapter[T],
        work: Callable[[Sandbox, B], Awaitable[T | Problem]],
    ) -> Handler:
        understood = TypeAdapter(kind)

        async def handle(request: web.Request) -> web.StreamResponse:
            body = await _body(request, understood)
            with self._rooms.using(request.match_info["sandbox"]) as sandbox:
                found = await work(sandbox, body)
            return answered(_value(answer, found))

        return handle

    async def _fetch(self, request: web.Request) -> web.StreamResponse:
        body = await _body(request, _FETCH)
        lines = self._lines(request)

        async def send(chunk: bytes) -> None:
            for start in range(0, len(chunk), _CHUNK):
                await lines.send({"data": base64.b64encode(chunk[start : start + _CHUNK]).decode()})

        with self._rooms.using(request.match_info["sandbox"]) as sandbox:
            await lines.begin()
            try:
                found = await sandbox.fetch(body.path, send, max_bytes=body.max_bytes)
            except SandboxError as error:
                return await lines.end({"error": _error(wire.FAILED, str(error), error.hint)})
            return await lines.end(_value(wire.FILE_INFO, found))

    def _lines(self, request: web.Request) -> Lines:
        return Lines(request, alive=self._limits.alive_seconds, stalled=self._limits.stalled_seconds)


_COMMAND = TypeAdapter(wire.CommandBody)
_FETCH = TypeAdapter(wire.FetchBody)
_SKILLS = TypeAdapter(wire.SkillsBody)
_SKILL_FILES = TypeAdapter(wire.SkillFilesBody)


def _read(sandbox: Sandbox, body: wire.ReadBody) -> Awaitable[FileText | Problem]:
    return sandbox.read_file(body.path, first_line=body.first_line, last_line=body.last_line, max_bytes=body.max_bytes)


def _write(sandbox: Sandbox, body: wire.WriteBody) -> Awaitable[FileInfo | Problem]:
    try:
        content = base64.b64decode(body.content, validate=True)
    except (binascii.Error, ValueError):
        raise wire.Malformed("content is not base64") from None
    return sandbox.write_file(body.path, content, append=body.append, expected=body.expected)


def _update(sandbox: Sandbox, body: wire.UpdateBody) -> Awaitable[Updated | Problem]:
    return sandbox.update_file(body.path, body.old, body.new, replace_all=body.replace_all, expected=body.expected)


def _list(sandbox: Sandbox, body: wire.ListBody) -> Awaitable[Entries | Problem]:
    return sandbox.list_dir(body.path, depth=body.depth, most=body.most)


def _glob(sandbox: Sandbox, body: wire.GlobBody) -> Awaitable[Entries | Problem]:
    return sandbox.glob(body.pattern, body.path, most=body.most)


def _grep(sandbox: Sandbox, body: wire.GrepBody) -> Awaitable[Hits | Problem]:
    return sandbox.grep(body.pattern, body.path, glob=body.glob, ignore_case=body.ignore_case, most=body.most)


async def _body(request: web.Request, kind: TypeAdapter[B]) -> B:
    return wire.understood(kind, wire.parsed(await request.read()))


def _value(kind: TypeAdapter[T], found: T | Problem) -> dict[str, object]:
    if isinstance(found, Problem):
        return {"problem": wire.PROBLEM.dump_python(found, mode="json")}
    return {"result": kind.dump_python(found, mode="json")}


def _ended(running: asyncio.Task[CommandResult]) -> dict[str, object]:
    if running.cancelled():
        return {"error": _error(wire.CANCELLED, "the command was ended")}
    failure = running.exception()
    if isinstance(failure, SandboxError):
        return {"error": _error(wire.FAILED, str(failure), failure.hint)}
    return {"result": wire.RESULT.dump_python(running.result(), mode="json")}


def _error(code: str, text: str, hint: str = "") -> dict[str, str]:
    return {"code": code, "text": text, "hint": hint}


def answered(value: object, status: int = 200) -> web.Response:
    return web.Response(status=status, body=wire.dumped(value), content_type="application/json")


def refused(code: str, text: str, hint: str = "") -> web.Response:
    return answered({"error": _error(code, text, hint)}, STATUS[code])
