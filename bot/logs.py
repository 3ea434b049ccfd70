"""Logging set-up: text for people or one JSON object a line, always redacted, libraries kept quiet."""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Literal

from bot.redaction import RedactingFormatter

if TYPE_CHECKING:
    from bot.redaction import Redactor

OURS = ("bot", "channels", "harness", "sandbox")


class JsonFormatter(logging.Formatter):
    """One JSON object a line, so that a newline in a message cannot forge a second record."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """`12:00:01 info bot.app: ...`, control characters of foreign text escaped; only records start a line."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if text.isprintable():
            return text
        text = "".join(c if c in "\n\t" or c.isprintable() else f"\\x{ord(c):02x}" for c in text)
        return text.replace("\n", "\n    ")


def configure(level: str, format_name: Literal["text", "json"], redact: Redactor) -> None:
    """Replace the root handler. Libraries log from WARNING on: at INFO httpx prints URLs, which hold tokens."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RedactingFormatter(JsonFormatter() if format_name == "json" else TextFormatter(), redact))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in OURS:
        logging.getLogger(name).setLevel(level.upper())
