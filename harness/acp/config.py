"""Settings of agents that speak the Agent Client Protocol."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr, StringConstraints

from harness.config import Section

AgentName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class AcpAgentSettings(Section):
    """One entry of `acp_agents:`, a program that the sandbox's shell can find."""

    command: str = Field(min_length=1, max_length=300, description="Program to run, as found in the sandbox")
    args: tuple[str, ...] = Field(default=(), max_length=50)
    description: str = Field(default="", max_length=500, description="What it is good at, for the model")
    env: dict[Variable, SecretStr] = Field(default={}, description="Variables added to the sandbox's own")
    timeout: float = Field(
        default=1800.0, gt=0, le=86_400, description="Time limit of a task in seconds, including waits for people"
    )
    start_timeout: float = Field(default=60.0, gt=0, le=600, description="Seconds in which it must begin a session")
    permissions: bool = Field(default=True, description="False: its requests are denied without asking anyone")
