"""The bytes of files: uploads to announced addresses, downloads for tokens, otherwise the login page."""

from aiohttp import web

from tests.simulators.slack.calls import shown_headers
from tests.simulators.slack.faults import FILE_DOWNLOAD, FILE_UPLOAD
from tests.simulators.slack.faulty import HTML_ERROR, LOGIN_PAGE, SlackServer
from tests.simulators.slack.files import StoredFile
from tests.simulators.slack.journal import Record
from tests.simulators.slack.state import App


class FileServer(SlackServer):
    """Handlers of /upload/ and /files-pri/."""

    async def upload(self, request: web.Request) -> web.StreamResponse:
        """Receive the bytes of an announced file; no token is needed, since the address is the secret."""
        file_id = request.match_info["file"]
        stored = self.world.files.files.get(file_id)
        record, app = self._file_record(request, FILE_UPLOAD, stored)
        record.params = {"file": file_id}
        content = await _body(request)

        async def apply() -> web.Response:
            if stored is None or stored.uploaded:
                return web.Response(status=404, text="")
            if len(content) != stored.declared_size:
                return web.Response(status=400, text=f"{len(content)} bytes instead of {stored.declared_size}")
            self.world.files.fill(stored, content)
            record.applied = True
            return web.Response(text=f"OK - {len(content)}")

        return await self.with_faults(request, record, app, apply)

    async def download(self, request: web.Request) -> web.StreamResponse:
        """Send a file's bytes for a bot token with files:read; other requests get the login page, with status 200."""
        path = request.match_info["path"].removeprefix("download/")
        file_id = path.partition("/")[0].rpartition("-")[2]
        stored = self.world.files.files.get(file_id)
        record, app = self._file_record(request, FILE_DOWNLOAD, stored)
        record.params = {"file": file_id}
        if stored is None or not stored.completed:
            self.world.journal.finish(record, 404, "refused")
            return web.Response(status=404, text=HTML_ERROR, content_type="text/html")
        fault = self.world.faults.take(app.app_id, FILE_DOWNLOAD, None) if app else None
        if fault is not None:
            await self.before(fault, record)
            if fault.answer != "normal":
                return self.broken_answer(request, fault, record)
        if not self._may_read(request, stored):
            stored.login_pages += 1
            self.world.journal.finish(record, 200, "refused")
            return web.Response(text=LOGIN_PAGE, content_type="text/html")
        response, record.applied = await stored.stream(request, stored.mime)
        self.world.journal.finish(record, 200, "applied" if record.applied else "dropped")
        return response

    def _file_record(self, request: web.Request, method: str, stored: StoredFile | None) -> tuple[Record, App | None]:
        """The record of a request for a file, and the app whose faults apply: the caller's or the uploader's."""
        install = self.world.installs.get(_bearer(request))
        if install is None and stored is not None:
            install = next((i for i in self.world.installs.values() if i.bot_user_id == stored.user), None)
        app = install.app if install else None
        record = Record(
            app_id=app.app_id if app else None,
            method=method,
            http_method=request.method,
            path=request.path,
            headers=shown_headers(request),
        )
        return self.world.journal.arrive(record), app

    def _may_read(self, request: web.Request, stored: StoredFile) -> bool:
        install = self.world.installs.get(_bearer(request))
        return (
            install is not None
            and install.revoked is None
            and "files:read" in install.scopes
            and install.workspace.team_id == stored.team_id
        )


def _bearer(request: web.Request) -> str:
    return request.headers.get("Authorization", "").removeprefix("Bearer ").strip()


async def _body(request: web.Request) -> bytes:
    """The raw body, or the first file part of a multipart one."""
    if request.content_type != "multipart/form-data":
        return await request.read()
    form = await request.post()
    part = next((value for value in form.values() if isinstance(value, web.FileField)), None)
    return part.file.read() if part is not None else b""
