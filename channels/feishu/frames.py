"""The frames of Feishu's long connection, in protobuf's wire format by hand. Pure; used by socket.py.

The schema (proto2, from the official SDK): Frame{1 SeqID u64, 2 LogID u64, 3 service i32, 4 method i32, 5 headers
repeated {1 key, 2 value}, 6 payload_encoding, 7 payload_type, 8 payload bytes, 9 LogIDNew}. Loading the SDK for these
nine fields would cost 150 MB and two seconds, see docs/decisions/0006-feishu-connection.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONTROL, DATA = 0, 1
"""Values of Frame.method."""
_VARINT, _FIXED64, _BYTES = 0, 1, 2
_NUMBERS = {1: "seq_id", 2: "log_id", 3: "service", 4: "method"}
_TEXTS = {6: "payload_encoding", 7: "payload_type", 9: "log_id_new"}
_HEADER, _PAYLOAD = 5, 8


class BadFrame(ValueError):
    """The bytes are no frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One message on the wire. headers keep their order; a repeated key keeps its last value."""

    method: int
    service: int = 0
    seq_id: int = 0
    log_id: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    payload_encoding: str = ""
    payload_type: str = ""
    payload: bytes = b""
    log_id_new: str = ""

    def header(self, key: str) -> str:
        return self.headers.get(key, "")

    def answer(self, payload: bytes, biz_milliseconds: int) -> Frame:
        """The acknowledgement: the same frame with a payload of ours."""
        return replace(self, headers={**self.headers, "biz_rt": str(biz_milliseconds)}, payload=payload)


def ping(service: int) -> Frame:
    return Frame(method=CONTROL, service=service, headers={"type": "ping"})


def encode(frame: Frame) -> bytes:
    parts = [_number(number, getattr(frame, name)) for number, name in _NUMBERS.items()]
    parts += [_bytes(_HEADER, _text(1, key) + _text(2, value)) for key, value in frame.headers.items()]
    parts += [_text(number, getattr(frame, _TEXTS[number])) for number in (6, 7) if getattr(frame, _TEXTS[number])]
    if frame.payload:
        parts.append(_bytes(_PAYLOAD, frame.payload))
    if frame.log_id_new:
        parts.append(_text(9, frame.log_id_new))
    return b"".join(parts)


def decode(data: bytes) -> Frame:
    """Raises BadFrame. Unknown fields are ignored, as protobuf readers do."""
    numbers: dict[str, int] = {}
    texts: dict[str, str] = {}
    headers: dict[str, str] = {}
    payload = b""
    for number, value in _fields(data):
        if number in _NUMBERS and isinstance(value, int):
            numbers[_NUMBERS[number]] = value if number < 3 else _signed(value)
        elif isinstance(value, bytes):
            if number == _HEADER:
                key, text = _read_header(value)
                headers[key] = text
            elif number == _PAYLOAD:
                payload = value
            elif number in _TEXTS:
                texts[_TEXTS[number]] = _decoded(value)
    if "method" not in numbers:
        raise BadFrame("it has no method")
    return Frame(headers=headers, payload=payload, **numbers, **texts)  # type: ignore[arg-type]  # the names above


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        match tag & 7:
            case 0:
                value, position = _read_varint(data, position)
                yield tag >> 3, value
            case 2:
                length, position = _read_varint(data, position)
                piece, position = _take(data, position, length)
                yield tag >> 3, piece
            case 1 | 5 as kind:
                piece, position = _take(data, position, 8 if kind == _FIXED64 else 4)
                yield tag >> 3, piece
            case kind:
                raise BadFrame(f"wire type {kind} is not used in frames")


def _read_header(data: bytes) -> tuple[str, str]:
    found = {number: _decoded(value) for number, value in _fields(data) if isinstance(value, bytes)}
    return found.get(1, ""), found.get(2, "")


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        if position >= len(data):
            raise BadFrame("it ends within a number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
    raise BadFrame("a number is longer than ten bytes")


def _take(data: bytes, position: int, length: int) -> tuple[bytes, int]:
    end = position + length
    if end > len(data):
        raise BadFrame("it ends within a field")
    return data[position:end], end


def _decoded(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _signed(value: int) -> int:
    """An int32 travels as a 64-bit two's complement."""
    low = value & 0xFFFF_FFFF
    return low - (1 << 32) if low >= 1 << 31 else low


def _varint(value: int) -> bytes:
    value &= 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())
