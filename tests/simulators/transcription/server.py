"""A transcription service with OpenAI's API (POST /v1/audio/transcriptions) that hears what speech.py hid."""

from dataclasses import dataclass
from typing import Any

from aiohttp import BodyPartReader, web

from tests.simulators.control import FaultRoutes, JournalRoutes, add_routes
from tests.simulators.faults import FaultQueue
from tests.simulators.faulty import FaultyServer
from tests.simulators.journal import Call, CallJournal
from tests.simulators.signals import Signal
from tests.simulators.transcription import speech
from tests.simulators.transcription.faults import TRANSCRIBE, Fault

LARGEST = 25 * 1024 * 1024
SUFFIXES = ("flac", "m4a", "mp3", "mp4", "mpeg", "mpga", "oga", "ogg", "wav", "webm")
"""File name endings that the real service accepts."""
FIELDS = {"model", "response_format", "language", "prompt", "temperature"}


@dataclass(kw_only=True)
class Record(Call):
    """See Call. client: the key's part after `sk-`; params: the form's fields, those of its file as `file.*`, and the
    transcribed `words`."""

    client: str = ""


class TranscriptionServer(FaultyServer[Record, Fault]):
    """The service. It accepts any key that does not begin with "bad", and any model not beginning with "missing"."""

    def __init__(self) -> None:
        self.journal = CallJournal[Record]()
        self.released = Signal()
        self.faults: FaultQueue[Fault] = FaultQueue()
        super().__init__(self.journal, self.released)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=2 * LARGEST)
        app.router.add_post("/v1/audio/transcriptions", self._transcribe)
        faults = FaultRoutes(self.faults, Fault, self.released, account=lambda spec: str(spec["client"]))
        add_routes(app, JournalRoutes(self.journal), faults)
        return app

    async def _transcribe(self, request: web.Request) -> web.StreamResponse:
        key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        record = self.journal.arrive(
            Record(method=TRANSCRIBE, http_method="POST", path=request.path, client=key.removeprefix("sk-"))
        )
        record.headers = {"content-type": request.content_type}

        async def apply() -> web.Response:
            return await self._answer(request, record, key)

        return await self.meet(self.faults.take(record.client, TRANSCRIBE), request, record, apply)

    async def _answer(self, request: web.Request, record: Record, key: str) -> web.Response:
        if not key or key.startswith("bad"):
            return _error(401, "invalid_api_key", f"Incorrect API key provided: {key}.")
        if request.content_type != "multipart/form-data":
            return _error(400, "", "Expected multipart/form-data.")
        content = await _read_form(request, record)
        if isinstance(problem := _problem(record.params, content), web.Response):
            return problem
        record.applied = True
        record.params["words"] = speech.heard(content)
        return web.json_response({"text": record.params["words"], "usage": {"type": "duration", "seconds": 2}})

    def answer_of(self, fault: Fault, record: Record) -> web.Response:
        if fault.answer == "html":
            return web.Response(status=fault.status, text="<html>Bad gateway</html>", content_type="text/html")
        if fault.answer == "garbage":
            return web.Response(text='{"text": "half of', content_type="application/json")
        headers = {"Retry-After": fault.retry_after} if fault.retry_after else {}
        return _error(fault.status, fault.code, f"Your key sk-{record.client} cannot do that now.", headers)


async def _read_form(request: web.Request, record: Record) -> bytes:
    """Return the file's bytes and put everything else into the record."""
    content = b""
    async for part in await request.multipart():
        assert isinstance(part, BodyPartReader)
        if part.name == "file":
            content = bytes(await part.read())
            record.params["file.name"] = part.filename or ""
            record.params["file.type"] = part.headers.get("Content-Type", "")
            record.params["file.size"] = len(content)
        else:
            record.params[part.name or ""] = await part.text()
    return content


def _problem(params: dict[str, Any], content: bytes) -> web.Response | None:
    strange = {name for name in params if "." not in name} - FIELDS
    if strange or not params.get("model") or "file.name" not in params:
        return _error(400, "", f"missing or unknown parameters: {sorted(strange)}")
    if params["model"].startswith("missing"):
        return _error(404, "model_not_found", "The model does not exist.")
    if len(content) > LARGEST:
        return _error(413, "", "Maximum content size limit exceeded.")
    if params["file.name"].rpartition(".")[2] not in SUFFIXES:
        return _error(400, "", "Unrecognized file format.")
    return None


def _error(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code or None}
    return web.json_response({"error": error}, status=status, headers=headers)
