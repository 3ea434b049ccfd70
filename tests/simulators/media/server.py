"""A service with OpenAI's API for pictures (POST /v1/images/generations, /v1/images/edits) and speech (POST
/v1/audio/speech): pictures have a colour by their prompt, recordings hide their words as speech.py of the transcription
simulator does."""

import base64
import hashlib
import io
import struct
from dataclasses import dataclass
from typing import Any

from aiohttp import BodyPartReader, web
from PIL import Image

from tests.simulators.control import FaultRoutes, JournalRoutes, add_routes
from tests.simulators.faults import FaultQueue
from tests.simulators.faulty import FaultyServer
from tests.simulators.journal import Call, CallJournal
from tests.simulators.media.client import EDIT, SPEECH
from tests.simulators.signals import Signal
from tests.simulators.transcription import speech
from tests.simulators.transcription.faults import Fault

LONGEST_PROMPT, LONGEST_SPEECH = 32_000, 4096
PICTURE_FIELDS = {"model", "prompt", "n", "size", "quality", "background", "output_format", "moderation", "user"}
SPEECH_FIELDS = {"model", "input", "voice", "response_format", "speed", "instructions"}
VOICES = {"alloy", "nova", "onyx", "shimmer"}
SIZES = {"1024x1024": (8, 8), "1536x1024": (12, 8), "1024x1536": (8, 12)}
FRAME = bytes([0xFF, 0xFB, 0x90, 0x00])
"""MPEG 1 layer III, 128 kbit/s, 44.1 kHz: a frame of 417 bytes."""
FRAME_BYTES = 417


@dataclass(kw_only=True)
class Record(Call):
    """See Call. client: the key's part after `sk-`; params: the request's fields, for files their sizes."""

    client: str = ""


class MediaServer(FaultyServer[Record, Fault]):
    """The service. It accepts any key that does not begin with "bad" and any model not beginning with "missing"; a
    prompt with the word "forbidden" is refused by the content policy."""

    def __init__(self) -> None:
        self.journal = CallJournal[Record]()
        self.released = Signal()
        self.faults: FaultQueue[Fault] = FaultQueue()
        super().__init__(self.journal, self.released)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=50 * 1024 * 1024)
        app.router.add_post("/v1/images/{method:generations|edits}", self._serve)
        app.router.add_post("/v1/audio/{method:speech}", self._serve)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/pictures/{prompt}", self._picture)
        app.router.add_get("/moved", _moved)
        faults = FaultRoutes(self.faults, Fault, self.released, account=lambda spec: str(spec["client"]))
        add_routes(app, JournalRoutes(self.journal), faults)
        return app

    async def _models(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization", "").startswith("Bearer bad"):
            return _error(401, "invalid_api_key", "Incorrect API key provided.")
        models = [{"id": name, "object": "model", "created": 1, "owned_by": "sim"} for name in ("sim-image", "sim-tts")]
        return web.json_response({"object": "list", "data": models})

    async def _picture(self, request: web.Request) -> web.Response:
        return web.Response(body=picture(request.match_info["prompt"]), content_type="image/png")

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        method = request.match_info["method"]
        record = self.journal.arrive(
            Record(method=method, http_method="POST", path=request.path, client=key.removeprefix("sk-"))
        )
        record.params = await _fields(request)

        async def apply() -> web.Response:
            problem = _problem(record, key)
            record.applied = problem is None
            if problem is not None:
                return problem
            return _spoken(record.params) if method == SPEECH else _painted(record.params)

        return await self.meet(self.faults.take(record.client, method), request, record, apply)

    def answer_of(self, fault: Fault, record: Record) -> web.Response:
        if fault.answer == "html":
            return web.Response(status=fault.status, text="<html>Bad gateway</html>", content_type="text/html")
        if fault.answer == "garbage":
            return web.Response(text='{"data": "half of', content_type="application/json")
        headers = {"Retry-After": fault.retry_after} if fault.retry_after else {}
        return _error(fault.status, fault.code, f"Your key sk-{record.client} cannot do that now.", headers)


async def _fields(request: web.Request) -> dict[str, Any]:
    if request.content_type == "application/json":
        fields: dict[str, Any] = await request.json()
        return fields
    fields = {}
    async for part in await request.multipart():
        assert isinstance(part, BodyPartReader)
        if (part.name or "").startswith("image"):
            fields.setdefault("image", []).append(len(await part.read()))
        else:
            fields[part.name or ""] = await part.text()
    return fields


def _problem(record: Record, key: str) -> web.Response | None:
    fields, speaks = record.params, record.method == SPEECH
    if not key or key.startswith("bad"):
        return _error(401, "invalid_api_key", f"Incorrect API key provided: {key}.")
    strange = set(fields) - (SPEECH_FIELDS if speaks else PICTURE_FIELDS | {"image"})
    said = fields.get("input" if speaks else "prompt")
    if strange or not isinstance(said, str) or not said or not fields.get("model"):
        return _error(400, "", f"missing or unknown parameters: {sorted(strange)}")
    if str(fields["model"]).startswith("missing"):
        return _error(404, "model_not_found", "The model does not exist.")
    if speaks and (fields.get("voice") not in VOICES or fields.get("response_format", "mp3") not in ("mp3", "opus")):
        return _error(400, "", "Input should be a known voice and format.")
    if not speaks and fields.get("size", "1024x1024") not in SIZES:
        return _error(400, "invalid_value", "Invalid size.")
    if record.method == EDIT and not fields.get("image"):
        return _error(400, "", "Missing image.")
    if len(said) > (LONGEST_SPEECH if speaks else LONGEST_PROMPT):
        return _error(400, "string_above_max_length", "String too long.")
    if not speaks and "forbidden" in said:
        return _error(400, "moderation_blocked", "Your request was rejected by the safety system.")
    return None


def _painted(fields: dict[str, Any]) -> web.Response:
    content = picture(fields["prompt"], fields.get("size", "1024x1024"))
    usage = {"input_tokens": 10, "output_tokens": 100, "total_tokens": 110, "input_tokens_details": _DETAILS}
    data = [{"b64_json": base64.b64encode(content).decode()}]
    if fields["model"] == "sim-url":
        data = [{"url": f"/pictures/{fields['prompt']}"}]
    if fields["model"] == "sim-moved":
        data = [{"url": "/moved"}]
    if fields["model"] == "sim-elsewhere":
        data = [{"url": "http://pictures.example/deer.png"}]
    return web.json_response({"created": 1_700_000_000, "data": data, "usage": usage})


async def _moved(request: web.Request) -> web.Response:
    """Redirect the request for a picture to another address."""
    raise web.HTTPFound("/pictures/deer")


_DETAILS = {"text_tokens": 10, "image_tokens": 0}


def picture(prompt: str, size: str = "1024x1024") -> bytes:
    """The PNG that the service makes of a prompt."""
    colour = hashlib.sha256(prompt.encode()).digest()
    buffer = io.BytesIO()
    Image.new("RGB", SIZES[size], (colour[0], colour[1], colour[2])).save(buffer, "PNG")
    return buffer.getvalue()


def _spoken(fields: dict[str, Any]) -> web.Response:
    if fields.get("response_format") == "opus":
        return web.Response(body=speech.ogg(fields["input"]), content_type="audio/ogg")
    return web.Response(body=mp3(fields["input"]), content_type="audio/mpeg")


def mp3(words: str) -> bytes:
    """An MP3: an ID3 tag, a frame that gives the length, and frames with the words."""
    tag = b"ID3\x04\x00\x00" + struct.pack(">I", 10) + bytes(10)
    info = (FRAME + bytes(17) + b"Info").ljust(FRAME_BYTES, b"\0")
    hidden = speech.hidden(words)
    room = FRAME_BYTES - len(FRAME)
    cut = [hidden[start : start + room] for start in range(0, len(hidden), room)]
    return tag + info + b"".join((FRAME + part).ljust(FRAME_BYTES, b"\0") for part in cut)


def heard(recording: bytes) -> list[str]:
    """The words of each part of an MP3, as mp3() hid them."""
    bodies = b"".join(recording[at + 4 : at + FRAME_BYTES] for at in range(0, len(recording), FRAME_BYTES))
    return [each.partition(b"\0")[0].decode() for each in bodies.split(b"\0words:")[1:]]


def _error(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code or None}
    return web.json_response({"error": error}, status=status, headers=headers)
