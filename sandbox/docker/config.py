"""The settings section `sandbox.docker:`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


class DockerSettings(BaseModel):
    """Containers for commands."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    image: str = Field(
        default="python:3.12-slim-bookworm",
        min_length=1,
        max_length=500,
        pattern=r"^[A-Za-z0-9][\w.:/@-]*$",
        description="An image with /bin/sh that the daemon has already; bash and python3 are used where it has them",
    )
    host: str = Field(
        default="unix:///var/run/docker.sock",
        pattern=r"^(unix:///|tcp://|http://|https://)[^\s]+$",
        description="Where the daemon listens",
    )
    replicas: int = Field(default=8, ge=1, le=1000, description="Containers at a time, idle ones among them")
    idle_timeout: float = Field(default=600, ge=0, le=604_800, description="Seconds that an unused container is kept")
    acquire_timeout: float = Field(
        default=60, gt=0, le=3600, description="Seconds to wait for a container while all replicas are in use"
    )
    network: str | None = Field(
        default=None,
        max_length=128,
        pattern=r"^[A-Za-z0-9][\w.-]*$",
        description="The daemon's network to join when sandbox.network is egress; it decides what commands reach",
    )
    api: Literal["none", "all_in_one"] = Field(
        default="none",
        description="all_in_one: the image is an all-in-one sandbox, which starts programs of its own",
    )
    host_paths: dict[Path, Path] = Field(
        default={},
        max_length=64,
        description="When Antler itself runs in a container: its folders, and where the daemon finds each",
    )

    @model_validator(mode="before")
    @classmethod
    def _without_the_port(cls, value: Any) -> Any:
        # Settings of the time when commands went through the image's HTTP API; they are accepted and mean nothing.
        if not isinstance(value, dict):
            return value
        return {name: each for name, each in value.items() if name not in ("api_port", "api_seconds")}

    @field_validator("host_paths")
    @classmethod
    def _absolute(cls, value: dict[Path, Path]) -> dict[Path, Path]:
        if not all(path.is_absolute() and ".." not in path.parts for pair in value.items() for path in pair):
            raise ValueError("should be absolute paths without ..")
        return value

    @field_validator("network")
    @classmethod
    def _a_network_of_its_own(cls, value: str | None) -> str | None:
        if value in ("host", "none", "default", "container"):
            raise ValueError("should be a network of its own: docker network create NAME")
        return value
