"""The operator's settings for the terminal. Built by the settings, read by the adapter."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class ConsoleConfig(BaseModel):
    """One console account; all terminals of this gateway belong to it."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    export_dir: Path = Field(default=Path("antler-files"), description="Where files of an answer are copied to")
