"""The long connection's frames: protobuf (proto2), encoded manually as an independent check of the SDK's."""

from collections.abc import Iterator
from dataclasses import dataclass

CONTROL, DATA = 0, 1

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MASK64 = (1 << 64) - 1


class FrameError(ValueError):
    """The bytes are not a valid frame: truncated, with an unknown wire type, or without a required field."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One binary message of the websocket. headers keep their order; method is CONTROL or DATA."""

    method: int
    service: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    payload: bytes = b""
    seq_id: int = 0
    log_id: int = 0
    payload_encoding: str = ""
    payload_type: str = ""
    log_id_new: str = ""

    def header(self, name: str) -> str:
        """The first header of that name, "" without one."""
        return next((value for key, value in self.headers if key == name), "")


def encode(frame: Frame) -> bytes:
    """The bytes of a frame; the four required numbers are always written."""
    numbers = (frame.seq_id, frame.log_id, frame.service, frame.method)
    data = b"".join(_tag(number, _VARINT) + _varint(value) for number, value in enumerate(numbers, 1))
    for key, value in frame.headers:
        data += _bytes(5, _bytes(1, key.encode()) + _bytes(2, value.encode()))
    texts = ((6, frame.payload_encoding), (7, frame.payload_type))
    data += b"".join(_bytes(number, text.encode()) for number, text in texts if text)
    data += _bytes(8, frame.payload) if frame.payload else b""
    return data + (_bytes(9, frame.log_id_new.encode()) if frame.log_id_new else b"")


def decode(data: bytes) -> Frame:
    """Read a frame; raises FrameError. Unknown fields are skipped, as protobuf requires."""
    numbers: dict[int, int] = {}
    texts: dict[int, bytes] = {}
    headers: list[tuple[str, str]] = []
    for field, value in _fields(data):
        if isinstance(value, int):
            numbers[field] = value
        elif field == 5:
            headers.append(_header(value))
        else:
            texts[field] = value
    if missing := {1, 2, 3, 4} - numbers.keys():
        raise FrameError(f"required fields are missing: {sorted(missing)}")
    return Frame(
        method=_int32(numbers[4]),
        service=_int32(numbers[3]),
        headers=tuple(headers),
        payload=texts.get(8, b""),
        seq_id=numbers[1],
        log_id=numbers[2],
        payload_encoding=texts.get(6, b"").decode(),
        payload_type=texts.get(7, b"").decode(),
        log_id_new=texts.get(9, b"").decode(),
    )


def _header(data: bytes) -> tuple[str, str]:
    fields = dict(_fields(data))
    key, value = fields.get(1), fields.get(2)
    if not isinstance(key, bytes) or not isinstance(value, bytes):
        raise FrameError("a header without its key or value")
    return key.decode(), value.decode()


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers with their values; fixed-width fields, which frames do not use, are given as bytes."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _read_varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _read_varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise FrameError(f"unknown wire type {kind}")
        if at + size > len(data):
            raise FrameError("truncated field")
        yield number, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise FrameError("truncated varint")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK64, at
    raise FrameError("a varint of more than ten bytes")


def _varint(value: int) -> bytes:
    value &= _MASK64  # negative numbers take ten bytes
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _tag(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _bytes(number: int, data: bytes) -> bytes:
    return _tag(number, _BYTES) + _varint(len(data)) + data


def _int32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
