"""Recordings with machine-readable words: real containers around a text, made by tests and read by the server."""

import struct

_BEGIN, _END = b"\0words:", b"\0"
_RATE = 48_000
_AMR_FRAME = bytes([0x04]) + bytes(12)


def ogg(words: str, seconds: float = 1.0) -> bytes:
    """Ogg with Opus, as Telegram and Feishu send it; the last page gives the length."""
    head = b"OpusHead" + struct.pack("<BBHIhB", 1, 1, 312, 16_000, 0, 0)
    return _page(head, 0, 0, 2) + _page(hidden(words), 1, round(seconds * _RATE) + 312, 4)


def amr(words: str, seconds: float = 1.0) -> bytes:
    """AMR, as WeChat's family records it. The words follow the frames."""
    return b"#!AMR\n" + _AMR_FRAME * round(seconds / 0.02) + hidden(words)


def wav(words: str, seconds: float = 1.0, rate: int = 16_000) -> bytes:
    """PCM, mono, 16 bits."""
    data = hidden(words).ljust(round(seconds * rate * 2), b"\0")
    form = struct.pack("<HHIIHH", 1, 1, rate, rate * 2, 2, 16)
    chunks = b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def m4a(words: str, seconds: float = 1.0) -> bytes:
    """M4A boxes with the type and the length, as Slack's clips begin."""
    movie = _box(b"mvhd", bytes(12) + struct.pack(">II", 1000, round(seconds * 1000)) + bytes(80))
    return _box(b"ftyp", b"M4A \0\0\0\0") + _box(b"moov", movie) + _box(b"mdat", hidden(words))


def heard(recording: bytes) -> str:
    """The words in a recording; "" for silence."""
    found = recording.partition(_BEGIN)[2]
    return found.partition(_END)[0].decode()


def hidden(words: str) -> bytes:
    """The words in the form in which recordings contain them."""
    return _BEGIN + words.encode() + _END


def _page(body: bytes, number: int, position: int, flags: int) -> bytes:
    """flags: 2 for the first page, 4 for the last one (RFC 3533)."""
    sizes = bytes([255] * (len(body) // 255) + [len(body) % 255])
    head = struct.pack("<BqIII", flags, position, 1, number, 0)
    return b"OggS\0" + head + bytes([len(sizes)]) + sizes + body


def _box(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", 8 + len(body)) + name + body
