"""What the accounts `web` and `api` are made by. Built by the gateway's settings, never written in a config."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict


class HttpConfig(BaseModel):
    """uploads: below which the files lie that people attach, each at the path that its attachment's `ref` names."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    uploads: Path

    @staticmethod
    def names_group(native_id: str) -> bool:
        """Nothing here is a group."""
        return False
