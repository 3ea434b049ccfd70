"""Uploading in three steps, checked as the platform does: sizes, number of chunks, completeness, MD5."""

import base64
import binascii
import hashlib
import re

from tests.simulators.wecom.errors import BAD_PARAM, WecomError
from tests.simulators.wecom.limits import CHUNK_BYTES, CHUNKS, LARGEST_FILE, SMALLEST_FILE, UPLOAD_SECONDS
from tests.simulators.wecom.state import Bot, Json, Media, Upload
from tests.simulators.wecom.world import World, new_id

PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8")
AMR = b"#!AMR"


def begin(world: World, bot: Bot, body: Json) -> Json:
    """aibot_upload_media_init."""
    match body:
        case {
            "type": str(kind),
            "filename": str(name),
            "total_size": int(size),
            "total_chunks": int(chunks),
            "md5": str(md5),
        } if kind in LARGEST_FILE and name and re.fullmatch(r"[0-9a-f]{32}", md5):
            pass
        case _:
            raise WecomError(BAD_PARAM, "type, filename, total_size, total_chunks or md5")
    if not SMALLEST_FILE < size <= LARGEST_FILE[kind]:
        raise WecomError(BAD_PARAM, f"a {kind} of {size} bytes")
    if not 1 <= chunks <= CHUNKS or chunks * CHUNK_BYTES < size:
        raise WecomError(BAD_PARAM, f"{chunks} chunks")
    upload = Upload(new_id("u"), kind, name, size, chunks, md5, world.clock.now())
    bot.uploads[upload.upload_id] = upload
    return {"upload_id": upload.upload_id}


def chunk(world: World, bot: Bot, body: Json) -> None:
    """aibot_upload_media_chunk."""
    upload = _upload(world, bot, body)
    index = body.get("chunk_index")
    if type(index) is not int or not 0 <= index < upload.chunks:
        raise WecomError(BAD_PARAM, f"chunk_index {index}")
    try:
        content = base64.b64decode(body.get("base64_data") or "", validate=True)
    except binascii.Error as error:
        raise WecomError(BAD_PARAM, "base64_data") from error
    if not 0 < len(content) <= CHUNK_BYTES:
        raise WecomError(BAD_PARAM, f"a chunk of {len(content)} bytes")
    upload.parts[index] = content


def finish(world: World, bot: Bot, body: Json) -> Json:
    """aibot_upload_media_finish."""
    upload = _upload(world, bot, body)
    if len(upload.parts) != upload.chunks:
        raise WecomError(BAD_PARAM, f"{len(upload.parts)} of {upload.chunks} chunks")
    content = b"".join(upload.parts[index] for index in range(upload.chunks))
    if len(content) != upload.size or hashlib.md5(content, usedforsecurity=False).hexdigest() != upload.md5:
        raise WecomError(BAD_PARAM, "total_size or md5 is another")
    if upload.type == "image" and not content.startswith(PICTURES):
        raise WecomError(BAD_PARAM, "no picture")
    if upload.type == "voice" and not content.startswith(AMR):
        raise WecomError(BAD_PARAM, "no AMR")
    del bot.uploads[upload.upload_id]
    media = Media(new_id("f"), upload.type, upload.name, content, world.clock.now())
    bot.media[media.media_id] = media
    return {"type": media.type, "media_id": media.media_id, "created_at": int(media.at)}


def _upload(world: World, bot: Bot, body: Json) -> Upload:
    upload = bot.uploads.get(str(body.get("upload_id")))
    if upload is None or world.clock.now() - upload.at > UPLOAD_SECONDS:
        raise WecomError(BAD_PARAM, "upload_id")
    return upload
