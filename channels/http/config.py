"""Settings of the accounts `web` and `api`. Built from the gateway's settings, never written in a config."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict


class HttpConfig(BaseModel):
    """uploads: root folder of the files that people attach, each at the path given by its attachment's `ref`."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    uploads: Path

    @staticmethod
    def names_group(native_id: str) -> bool:
        """False: these accounts have no groups."""
        return False
