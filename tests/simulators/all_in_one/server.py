"""The HTTP API of an all-in-one sandbox image, as far as it runs commands: `/v1/ping`, `/v1/sandbox`, `/v1/bash`. Runs
inside a container as its program, with the standard library only. SANDBOX_API_KEY: who does not send it is refused.
API_WITHOUT_BASH: as images before 1.9.3 are; API_WITHOUT_KEY: as those are that know of none.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import uuid
from http import HTTPStatus
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bash import BadRequest, NotFound, Sessions  # type: ignore[import-not-found]  # beside it in the image

PORT = 8080
KEY = "" if os.environ.get("API_WITHOUT_KEY") else os.environ.get("SANDBOX_API_KEY", "").strip()
WITHOUT_BASH = bool(os.environ.get("API_WITHOUT_BASH"))


class Server:
    def __init__(self) -> None:
        self.sessions = Sessions()

    async def answer(self, method: str, path: str, key: str, content: bytes) -> tuple[int, dict[str, object]]:
        if (method, path) == ("GET", "/v1/ping"):
            return 200, _good("pong")
        if KEY and key != KEY:
            return 401, {"success": False, "message": "Unauthorized", "data": None}
        if (method, path) == ("GET", "/v1/sandbox"):
            return 200, _good(None) | {"home_dir": os.environ.get("HOME", "/"), "version": "1.11.0"}
        if method != "POST" or not path.startswith("/v1/bash/") or WITHOUT_BASH:
            return 404, {"success": False, "message": "Not Found", "data": None}
        try:
            return await self._bash(path.removeprefix("/v1/bash/"), json.loads(content))
        except NotFound as error:
            return 404, {"success": False, "message": str(error), "data": None}
        except BadRequest as error:
            return 400, {"success": False, "message": str(error), "data": None}

    async def _bash(self, call: str, body: dict[str, object]) -> tuple[int, dict[str, object]]:
        name = str(body.get("session_id") or uuid.uuid4())
        if call == "exec":
            return 200, _good(await self._execute(name, body))
        if call == "output":
            wait = float(str(body.get("wait_timeout") or 30)) if body.get("wait") else 0.0
            offsets = (int(str(body.get(each) or 0)) for each in ("offset", "stderr_offset"))
            return 200, _good(await self.sessions.get(name).output(*offsets, wait=wait))
        if call == "write":
            await self.sessions.get(name).write(str(body["input"]))
            return 200, _good(None)
        if call.startswith("sessions/") and call.endswith("/close"):
            await self.sessions.close(call.split("/")[1])
            return 200, _good(None)
        return 404, {"success": False, "message": "Not Found", "data": None}

    async def _execute(self, name: str, body: dict[str, object]) -> dict[str, object]:
        session = self.sessions.get_or_make(name)
        if body.get("exec_dir"):
            session.folder = str(body["exec_dir"])
        since = session.stdout.end, session.stderr.end
        environment = body.get("env") or {}
        assert isinstance(environment, dict)
        timeout = None if body.get("async_mode") else float(str(body.get("timeout") or 3600))
        command = await session.execute(str(body["command"]), environment, timeout=timeout)
        return {
            "session_id": name,
            **command.told(),
            "stdout": session.stdout.since(since[0]) or None,
            "stderr": session.stderr.since(since[1]) or None,
            "offset": session.stdout.end,
            "stderr_offset": session.stderr.end,
        }


def _good(data: object) -> dict[str, object]:
    return {"success": True, "message": "Operation successful", "data": data}


async def serve(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, which is kept."""
    try:
        while line := await reader.readline():
            method, path, _ = line.decode("latin-1").split(" ", 2)
            headers: dict[str, str] = {}
            while (header := await reader.readline()).strip():
                name, _, value = header.decode("latin-1").partition(":")
                headers[name.strip().lower()] = value.strip()
            content = await reader.readexactly(int(headers.get("content-length", "0")))
            key = headers.get("x-aio-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
            status, answer = await server.answer(method, path, key, content)
            data = json.dumps(answer, ensure_ascii=False).encode()
            head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
            writer.write(head.encode() + f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        return
    finally:
        writer.close()


async def main() -> None:
    server = Server()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve(server, reader, writer)

    async with await asyncio.start_server(connected, "0.0.0.0", PORT) as listening:
        await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
