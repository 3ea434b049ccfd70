"""The settings section `sandbox:`, which bot/ puts into the config tree."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

PROVIDERS = ("bubblewrap", "landlock", "docker", "remote", "host", "off")

_OWN_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_MOUNT = re.compile(r"/mnt/[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TAKEN = frozenset({"/mnt/user-data", "/mnt/skills"})
_LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")

VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
VariableValue = Annotated[str, Field(max_length=32_000, pattern=r"^[^\x00]*$")]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class MountSettings(Section):
    """A folder of this machine that is visible in every sandbox."""

    path: str = Field(description="The path that commands and the model see: /mnt/<name>")
    host: Path = Field(description="The folder on this machine, absolute")
    read_only: bool = Field(default=True, description="Whether the folder is read-only")

    @field_validator("path")
    @classmethod
    def _below_mnt(cls, value: str) -> str:
        if not _MOUNT.fullmatch(value) or value in _TAKEN:
            raise ValueError("should be /mnt/<name> with an unused name: letters, digits, dots, dashes, underscores")
        return value

    @field_validator("host")
    @classmethod
    def _a_folder_of_its_own(cls, value: Path) -> Path:
        plain = PurePosixPath(value)
        if not plain.is_absolute() or ".." in plain.parts or len(plain.parts) < 2:
            raise ValueError("should be the absolute path of a folder, without .., and not /")
        return value


class SandboxLimits(Section):
    """Limits on one thread's commands and files. A megabyte has 1 048 576 bytes."""

    memory_mb: int = Field(default=1024, ge=64, le=1 << 20, description="Memory of all commands, or of each process")
    processes: int = Field(default=48, ge=4, le=10_000, description="Concurrent processes and threads")
    cpu_seconds: int = Field(default=600, ge=1, le=86_400, description="Processor time of one process")
    cpus: float = Field(default=2.0, gt=0, le=1024, description="Cores, where this can be enforced")
    open_files: int = Field(default=1024, ge=32, le=100_000, description="Open files of one process")
    file_mb: int = Field(default=256, ge=1, le=1 << 20, description="The largest file that can be written")
    disk_mb: int = Field(default=1024, ge=8, le=1 << 24, description="All files of the thread")
    inodes: int = Field(default=100_000, ge=100, le=10_000_000, description="Files and folders of the thread")
    free_disk_mb: int = Field(default=512, ge=0, le=1 << 24, description="What must stay free on the machine's disk")
    tmp_mb: int = Field(default=64, ge=1, le=1 << 20, description="Size of /tmp where it is in memory")
    command_seconds: float = Field(default=120, gt=0, le=86_400, description="Default time limit of a command")
    most_command_seconds: float = Field(default=900, gt=0, le=86_400, description="Longest time limit of a command")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.command_seconds > self.most_command_seconds:
            raise ValueError("command_seconds should not be more than most_command_seconds")
        if self.file_mb > self.disk_mb:
            raise ValueError("file_mb should not be more than disk_mb")
        return self


class NetworkSettings(Section):
    """mode: `none`, or `egress`: only the hosts of `allow`, through Antler's proxy. Short form: `network: none`."""

    mode: Literal["none", "egress"] = Field(default="none", description="none, or egress to the hosts in allow")
    allow: tuple[str, ...] = Field(
        default=(), max_length=1000, description="Host names; *.example.org matches every host below example.org"
    )

    @model_validator(mode="before")
    @classmethod
    def _only_the_mode(cls, value: Any) -> Any:
        return {"mode": value} if isinstance(value, str) else value

    @field_validator("allow")
    @classmethod
    def _host_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_host_name(host) for host in value)

    @model_validator(mode="after")
    def _egress_goes_somewhere(self) -> Self:
        if (self.mode == "egress") != bool(self.allow):
            raise ValueError("a mode with network access needs hosts in allow, and vice versa")
        return self


def _host_name(host: str) -> str:
    """The name in lower case. A name whose last label is a number is an address, which the list cannot contain."""
    name = host.lower()
    labels = name.removeprefix("*.").split(".")
    if len(name) > 253 or len(labels) < 2 or not all(map(_LABEL.fullmatch, labels)) or labels[-1].isdigit():
        raise ValueError("should be host names such as api.example.com or *.example.org")
    return name


class DockerSettings(Section):
    """Containers for commands."""

    image: str = Field(
        default="python:3.12-slim-bookworm",
        min_length=1,
        max_length=500,
        pattern=r"^[A-Za-z0-9][\w.:/@-]*$",
        description="An image with /bin/sh that the daemon already has; its bash and python3 are used if present",
    )
    host: str = Field(
        default="unix:///var/run/docker.sock",
        pattern=r"^(unix:///|tcp://|http://|https://)[^\s]+$",
        description="Address of the daemon",
    )
    replicas: int = Field(default=8, ge=1, le=1000, description="Maximum number of containers, including idle ones")
    idle_timeout: float = Field(default=600, ge=0, le=604_800, description="Seconds to keep an unused container")
    acquire_timeout: float = Field(
        default=60, gt=0, le=3600, description="Seconds to wait for a container while all replicas are in use"
    )
    network: str | None = Field(
        default=None,
        max_length=128,
        pattern=r"^[A-Za-z0-9][\w.-]*$",
        description="The daemon's network to join when sandbox.network is egress; it determines what commands reach",
    )
    api: Literal["none", "all_in_one"] = Field(
        default="none",
        description="all_in_one: the image is an all-in-one sandbox, which starts its own programs",
    )
    host_paths: dict[Path, Path] = Field(
        default={},
        max_length=64,
        description="When Antler itself runs in a container: its folders, and the path of each for the daemon",
    )

    @model_validator(mode="before")
    @classmethod
    def _commands_need_no_http_api(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.keys() & {"api_port", "api_seconds"}:
            raise ValueError("api_port and api_seconds no longer exist: commands run in the container itself")
        return value

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
            raise ValueError("should be a dedicated network: docker network create NAME")
        return value


class HostSettings(Section):
    """Settings of the provider without isolation."""

    allow_host_bash: bool = Field(
        default=False,
        description="Run commands on this machine without isolation; only where everyone who may write is an admin",
    )


SHORTEST_TOKEN = 16


def _fits_a_header(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not (text.isascii() and text.isprintable() and text == text.strip()):
        raise ValueError("should be printable ASCII characters without leading or trailing spaces")
    return value


Token = Annotated[SecretStr, Field(min_length=SHORTEST_TOKEN, max_length=4096), AfterValidator(_fits_a_header)]


MOST_SERVERS, LONGEST_URL = 1000, 2000
PORTS = {"http": 80, "https": 443}


class RemoteSettings(Section):
    """The servers with the sandboxes of the provider `remote`."""

    url: str | tuple[str, ...] = Field(
        default="", description="Address of the server, such as https://sandboxes.example.org, or a list of addresses"
    )
    token: Token | None = Field(default=None, description="Bearer token that authenticates Antler")
    connect_seconds: float = Field(default=10, gt=0, le=600, description="Time limit for opening a connection")
    answer_seconds: float = Field(
        default=60, gt=0, le=3600, description="Longest silence of the server, also while a command runs"
    )

    @field_validator("url", mode="before")
    @classmethod
    def _servers(cls, value: Any) -> Any:
        if isinstance(value, str):
            return _server_url(value) if value else value
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
            raise ValueError("should be an address, or a list of addresses")
        if not 0 < len(value) <= MOST_SERVERS:
            raise ValueError(f"should have 1 to {MOST_SERVERS} addresses")
        urls = tuple(_server_url(each) for each in value)
        parts = [urlsplit(url) for url in urls]
        if len({part.scheme for part in parts}) > 1:
            raise ValueError("should use https for all servers or for none")
        if len({(part.hostname, part.port or PORTS[part.scheme], part.path) for part in parts}) < len(parts):
            raise ValueError("should list each server once")
        return urls

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses of all servers; () if there are none."""
        if isinstance(self.url, tuple):
            return self.url
        return (self.url,) if self.url else ()


def _server_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if len(value) > LONGEST_URL or not usable or parts.username is not None or parts.query or parts.fragment:
        raise ValueError("should be http(s)://host[:port][/path], without a user or password")
    return value.rstrip("/")


class SandboxSettings(Section):
    """Where the agent's commands run and its files are stored."""

    use: str = Field(default="bubblewrap", description=f"{', '.join(PROVIDERS)}, or module:Class of a provider")
    mounts: tuple[MountSettings, ...] = Field(default=(), max_length=64, description="Folders visible in every sandbox")
    environment: dict[VariableName, VariableValue] = Field(
        default={}, max_length=200, description="Environment variables for commands; the model can read their values"
    )
    limits: SandboxLimits = Field(default=SandboxLimits(), description="Limits on a thread's commands and files")
    network: NetworkSettings = Field(default=NetworkSettings(), description="Network access of commands")
    uid: int = Field(
        default=60_700,
        ge=1000,
        lt=1 << 31,
        description="User id of commands when Antler runs as root; a number that no other program uses",
    )
    gid: int | None = Field(default=None, ge=1000, lt=1 << 31, description="Group id of commands; by default, uid")

    runtime: Path | None = Field(
        default=None, description="The Python packages for commands, if not those that make sandbox-runtime built"
    )
    docker: DockerSettings = Field(default=DockerSettings(), description="Settings of the provider docker")
    host: HostSettings = Field(default=HostSettings(), description="Settings of the provider host")
    remote: RemoteSettings = Field(default=RemoteSettings(), description="Settings of the provider remote")

    @field_validator("use")
    @classmethod
    def _known_or_a_class(cls, value: str) -> str:
        if value not in PROVIDERS and not _OWN_CLASS.fullmatch(value):
            raise ValueError(f"should be {', '.join(PROVIDERS)}, or module:Class")
        return value

    @model_validator(mode="after")
    def _mounts_have_names_of_their_own(self) -> Self:
        paths = [mount.path for mount in self.mounts]
        if len(set(paths)) < len(paths):
            raise ValueError("mounts: two mounts have the same path")
        return self

    @model_validator(mode="after")
    def _remote_is_somewhere(self) -> Self:
        if self.use == "remote" and not (self.remote.urls and self.remote.token):
            raise ValueError("remote needs sandbox.remote.url and sandbox.remote.token")
        return self

    @property
    def trusts_senders(self) -> bool:
        """Whether commands run on this machine without isolation, so that everyone who may write has to be an admin."""
        return self.use == "host" and self.host.allow_host_bash
