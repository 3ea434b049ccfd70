"""The settings section `sandbox.host:`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class HostSettings(BaseModel):
    """Of the provider without isolation."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    allow_host_bash: bool = Field(
        default=False,
        description="Run commands on this machine, held by nothing; only where everybody who may write is an admin",
    )
