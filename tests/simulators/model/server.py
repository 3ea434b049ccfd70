"""Model providers for tests, mainly OpenAI-compatible: they answer by script, are strict and record everything."""

from __future__ import annotations

import asyncio
import json
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from aiohttp import web

from tests.simulators.connections import OpenConnections
from tests.simulators.model import keeper
from tests.simulators.model.anthropic import Anthropic
from tests.simulators.model.directives import BadDirective, parse
from tests.simulators.model.gemini import Gemini
from tests.simulators.model.ollama import Ollama
from tests.simulators.model.play import SCRIPTED_RESET, FaultCounts, Gates, Player
from tests.simulators.model.records import CHANGES, Record, RecordLog
from tests.simulators.model.request import asked, take_images
from tests.simulators.model.scripts import STEPS, Say, Script, Status
from tests.simulators.model.wires import DeepSeek, Wire

if TYPE_CHECKING:
    from tests.simulators.model.request import Asked

MODELS = ("sim", "sim-mini", "sim-vision")
OPENAI = Wire()
WIRES: dict[str, Wire] = {
    "/v1/chat/completions": OPENAI,
    "/anthropic/v1/messages": Anthropic(),
    "/gemini/v1beta/models/{model}:{method}": Gemini(),
    "/deepseek/chat/completions": DeepSeek(),
    "/ollama/api/chat": Ollama(),
}
"""Path of the calls -> the vendor's API."""
MAX_BODY = 256 * 1024 * 1024
MAX_WAIT_SECONDS = 30.0

Match = Literal["exact", "contains"]


class ModelServer:
    """The state of one simulator. Any model name is served except those that begin with "missing"; any key is
    accepted except those that begin with "bad"."""

    def __init__(self) -> None:
        self._log = RecordLog()
        self._gates = Gates()
        self._faults = FaultCounts()
        self._scripts: dict[tuple[Match, str], Script] = {}
        self._connections = OpenConnections()
        self._prefix = uuid.uuid4().hex[:8]
        self._malformed: list[str] = []

    def app(self) -> web.Application:
        """The routes: the provider's under /v1, the tests' under /control."""
        app = web.Application(client_max_size=MAX_BODY)
        app.add_routes(
            [
                web.get("/v1/models", self._models),
                *(web.post(path, partial(self._complete, wire)) for path, wire in WIRES.items()),
                web.get("/control/records", self._records),
                web.get("/control/connections", self._open_connections),
                web.post("/control/malformed", self._take_malformed),
                web.post("/control/scripts", self._add_script),
                web.post("/control/release", self._release),
                web.post("/control/reset", self._reset),
                web.post("/control/lean", self._lean),
            ]
        )
        return app

    async def _models(self, request: web.Request) -> web.StreamResponse:
        record = self._open(request)
        response = _unauthorized(OPENAI, record) or web.json_response(
            {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "simulator"} for name in MODELS]}
        )
        record.status = response.status
        self._log.close(record, "done")
        return response

    async def _complete(self, wire: Wire, request: web.Request) -> web.StreamResponse:
        record = self._open(request)
        try:
            response = await self._answer(wire, request, record)
        except asyncio.CancelledError:
            self._log.close(record, "disconnected")
            raise
        except ConnectionResetError as error:
            ours = SCRIPTED_RESET in str(error)
            self._log.close(record, "broken" if ours else "disconnected", str(error))
            raise
        self._log.close(record, "done", record.error)
        return response

    async def _answer(self, wire: Wire, request: web.Request, record: Record) -> web.StreamResponse:
        raw = await request.read()
        refused = _unauthorized(wire, record) or self._understand(wire, request, raw, record)
        if refused is not None:
            return refused
        record.stream = bool(record.body.get("stream"))
        kind = wire.streamed if record.stream else wire.whole
        if kind is None:
            return _bad_request(wire, record, "of this vendor only streams are simulated")
        plain = wire.plain(record.body)
        record.images = take_images(plain)
        ask = asked(plain)
        record.last_user_text = ask.last_user_text
        self._log.changed(record)
        answer = kind(request, record, self._prefix, prompt_tokens=len(raw) // 4)
        player = Player(ask, record, self._log, self._gates, self._faults, wire)
        return await player.play(self._script(ask).round(ask.round), answer)

    def _understand(self, wire: Wire, request: web.Request, raw: bytes, record: Record) -> web.Response | None:
        """Parse and check the body into the record; returns a response if it is refused."""
        try:
            record.body = wire.body(request, json.loads(raw))
        except ValueError as error:
            return _bad_request(wire, record, f"the body is not JSON: {error}")
        problem = wire.problem(record.body, raw)
        if problem is not None:
            self._malformed.append(problem)
            return _bad_request(wire, record, problem)
        if record.body["model"].startswith("missing"):
            return wire.refusal(record, Status(status=404))
        return None

    def _script(self, ask: Asked) -> Script:
        text = ask.last_user_text
        registered = self._scripts.get(("exact", text)) or next(
            (script for (match, part), script in self._scripts.items() if match == "contains" and part in text), None
        )
        if registered is not None:
            return registered
        update = keeper.update(ask.system, text)
        if update is not None:
            return update
        try:
            return parse(text) or Script()
        except BadDirective as error:
            return Script((Say(text=f"Bad directive: {error}"),))

    def _open(self, request: web.Request) -> Record:
        self._connections.note(request)
        headers = {name.lower(): value for name, value in request.headers.items()}
        return self._log.open(request.method, request.path, headers)

    async def _records(self, request: web.Request) -> web.Response:
        wait = min(float(request.query.get("wait", "0")), MAX_WAIT_SECONDS)
        changes = await self._log.after(int(request.query.get("after", "0")), wait)
        return web.Response(body=CHANGES.dump_json(changes), content_type="application/json")

    async def _open_connections(self, request: web.Request) -> web.Response:
        return web.json_response({"open": self._connections.count})

    async def _take_malformed(self, request: web.Request) -> web.Response:
        taken, self._malformed = self._malformed, []
        return web.json_response({"problems": taken})

    async def _add_script(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        self._scripts[body["match"], body["text"]] = Script(STEPS.validate_python(body["steps"]))
        return web.json_response({})

    async def _release(self, request: web.Request) -> web.Response:
        self._gates.gate((await request.json())["name"]).set()
        return web.json_response({})

    async def _reset(self, request: web.Request) -> web.Response:
        self._scripts.clear()
        self._faults.clear()
        self._gates.clear()
        self._log.clear()
        return web.json_response({})

    async def _lean(self, request: web.Request) -> web.Response:
        self._log.lean = bool((await request.json())["lean"])
        return web.json_response({})


def _unauthorized(wire: Wire, record: Record) -> web.Response | None:
    key = wire.key(record.headers)
    return wire.refusal(record, Status(status=401)) if not key or key.startswith("bad") else None


def _bad_request(wire: Wire, record: Record, problem: str) -> web.Response:
    record.error = problem
    return wire.refusal(record, Status(status=400, message=problem))
