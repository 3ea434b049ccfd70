"""The settings section `memory:`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.config import Section


class MemorySettings(Section):
    """The section `memory`. model: for updates; "": the first one, "same": the one that answered. storage: auto: files
    with SQLite, the database with PostgreSQL."""

    enabled: bool = Field(default=True, description="Each chat can turn off its own with /memory off")
    groups: bool = Field(default=True, description="Whether groups have a memory of their own")
    storage: Literal["auto", "file", "database"] = "auto"
    model: str = Field(default="", description="Model for updates: a name of `models`, or same; empty: the first one")
    debounce_seconds: float = Field(default=30.0, ge=0, le=3600, description="Quiet time before an update")
    fact_confidence_threshold: float = Field(default=0.7, ge=0, le=1, allow_inf_nan=False)
    max_facts: int = Field(default=100, ge=1, le=1000)
    max_injection_tokens: int = Field(default=2000, ge=100, le=20_000, description="Limit of memory given to a thread")
    injected_facts: int = Field(default=15, ge=0, le=200)
    refresh_minutes: float = Field(default=60.0, gt=0, description="Time after which a thread gets it again")
    stale_days: int = Field(default=90, ge=1, description="A fact not mentioned for this long loses half of its rank")
    keep_days: int | None = Field(default=None, ge=1, description="A memory unused for this long is deleted")
