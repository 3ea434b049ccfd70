"""Images and files: uploads of apps, downloads of what people sent."""

from urllib.parse import quote

from aiohttp import web

from tests.simulators.feishu import ids
from tests.simulators.feishu.calls import Call
from tests.simulators.feishu.errors import FeishuError, missing_field
from tests.simulators.feishu.limits import FILE_BYTES, IMAGE_BYTES, RESOURCE_BYTES
from tests.simulators.feishu.state import App, Json, StoredFile
from tests.simulators.feishu.world import World

FILE_TYPES = ("opus", "mp4", "pdf", "doc", "xls", "ppt", "stream")
IMAGE_STARTS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM", b"II*\0", b"MM\0*")


def upload_image(world: World, app: App, call: Call) -> Json:
    """POST im/v1/images, multipart: image_type, image."""
    if call.text("image_type") not in ("message", "avatar"):
        raise missing_field("image_type")
    upload = call.files.get("image")
    if upload is None:
        raise missing_field("image")
    if not upload.content:
        raise FeishuError(234010, "File's size can't be 0.")
    if len(upload.content) > IMAGE_BYTES:
        raise FeishuError(234006, "The file size exceed the max value.")
    if not upload.content.startswith(IMAGE_STARTS):
        raise FeishuError(234011, "Can't recognize the image format.")
    key = ids.numbered("img_v3_")
    stored = StoredFile(upload.name or "image", upload.mime, "image", upload.content, len(upload.content), app.app_id)
    app.tenant.images[key] = stored
    return {"image_key": key}


def upload_file(world: World, app: App, call: Call) -> Json:
    """POST im/v1/files, multipart: file_type, file_name, duration, file."""
    kind, name = call.text("file_type"), call.text("file_name")
    if kind not in FILE_TYPES:
        raise FeishuError(234001, "Invalid request param.")
    if not name:
        raise missing_field("file_name")
    upload = call.files.get("file")
    if upload is None:
        raise missing_field("file")
    if not upload.content:
        raise FeishuError(234010, "File's size can't be 0.")
    if len(upload.content) > FILE_BYTES:
        raise FeishuError(234006, "The file size exceed the max value.")
    key = ids.numbered("file_v3_")
    duration = int(call.text("duration") or 0) or None
    app.tenant.files[key] = StoredFile(
        name, upload.mime, kind, upload.content, len(upload.content), app.app_id, duration
    )
    return {"file_key": key}


def resource(app: App, call: Call) -> StoredFile:
    """GET im/v1/messages/:message_id/resources/:file_key?type=: the file; raises FeishuError."""
    message = app.tenant.messages.get(call.path["message_id"])
    if message is None or message.deleted_at is not None:
        raise FeishuError(230110, "Action unavailable as the message has been deleted.")
    if app.app_id not in message.chat.bots:
        raise FeishuError(234004, "App not in chat.")
    if message.upper_id or message.msg_type in ("merge_forward", "interactive", "sticker"):
        raise FeishuError(234043, "Unsupported message type.")
    kind = call.query.get("type", "")
    if kind not in ("image", "file"):
        raise FeishuError(234001, "Invalid request param.")
    stored = message.resources.get(call.path["file_key"])
    if stored is None or (stored.kind == "image") != (kind == "image"):
        raise FeishuError(234003, "File not in message.")
    if stored.size > RESOURCE_BYTES:
        raise FeishuError(234037, "Downloaded file size exceeds limit.")
    return stored


async def stream(request: web.Request, stored: StoredFile, *, half: bool = False) -> web.StreamResponse:
    """Send a file in pieces, or only half of it; raises ConnectionError if the client disconnected."""
    disposition = f"attachment; filename=\"{quote(stored.name)}\"; filename*=UTF-8''{quote(stored.name)}"
    response = web.StreamResponse(headers={"Content-Type": stored.mime, "Content-Disposition": disposition})
    response.headers["X-Tt-Logid"] = ids.numbered("log-")
    response.content_length = stored.size
    stored.downloads += 1
    await response.prepare(request)
    left = stored.size // 2 if half else stored.size
    for chunk in stored.chunks():
        await response.write(chunk[:left])
        stored.sent += min(left, len(chunk))
        left -= len(chunk)
        if left <= 0:
            break
    if not half:
        await response.write_eof()
    return response
