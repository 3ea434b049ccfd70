"""The settings of the reference server: a separate YAML file."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, Self

import yaml
from pydantic import Field, ValidationError, model_validator

from sandbox.config import SandboxSettings, Section, Token

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


class WrongSettings(Exception):
    """Invalid settings. The text describes the fault, and quotes no value."""


class ListenSettings(Section):
    host: str = Field(default="127.0.0.1", description="An address of this machine")
    port: int = Field(default=8790, ge=0, le=65_535, description="0: any free port")


class TlsSettings(Section):
    certificate: Path = Field(description="PEM file with the certificate and its intermediate certificates")
    key: Path = Field(description="PEM file with the private key")


class ServerLimits(Section):
    sandboxes: int = Field(default=100, ge=1, le=100_000, description="Open at once; the longest unused one is closed")
    commands: int = Field(default=8, ge=1, le=1000, description="Concurrent commands of one sandbox")
    request_mb: int = Field(default=400, ge=1, le=4096, description="The largest request; base64 adds a third")
    alive_seconds: float = Field(default=10, gt=0, le=30, description="Seconds between keep-alives of a silent stream")
    stalled_seconds: float = Field(
        default=30, gt=0, le=600, description="Seconds until a client that reads nothing is disconnected"
    )


class ServerSettings(Section):
    token: Token = Field(description="Token that clients must send; a long random text")
    data_dir: Path = Field(description="Folder with the files of all sandboxes")
    instance: str = Field(
        default="remote", pattern=r"^[a-z0-9][a-z0-9-]{0,31}$", description="Prefix of what it creates on this machine"
    )
    listen: ListenSettings = Field(default=ListenSettings(), description="Address to listen on")
    tls: TlsSettings | None = Field(
        default=None, description="Without it, the token and all files are sent in clear text"
    )
    skills: Path | None = Field(
        default=None, description="A folder with public/ and custom/, used if the client sends none"
    )
    sandbox: SandboxSettings = Field(
        default=SandboxSettings(), description="The provider behind it, as in Antler's config"
    )
    limits: ServerLimits = Field(default=ServerLimits(), description="Limits for clients")

    @model_validator(mode="after")
    def _something_behind_it(self) -> Self:
        if self.sandbox.use in ("remote", "off"):
            raise ValueError("sandbox.use should be a provider of this machine")
        return self

    @property
    def sends_in_the_clear(self) -> bool:
        """Whether others on the network could read the traffic."""
        try:
            return self.tls is None and not ipaddress.ip_address(self.listen.host).is_loopback
        except ValueError:
            return self.tls is None and self.listen.host != "localhost"


def load(path: Path) -> ServerSettings:
    """Load the settings. Relative paths are relative to the file. Raises WrongSettings."""
    try:
        values = yaml.safe_load(path.read_text())
    except OSError as error:
        raise WrongSettings(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        raise WrongSettings(f"{path}: invalid YAML{f', line {mark.line + 1}' if mark else ''}") from None
    try:
        settings = ServerSettings.model_validate(values if values is not None else {})
    except ValidationError as error:
        found = "; ".join(_sentence(each) for each in error.errors(include_input=False, include_url=False))
        raise WrongSettings(f"{path}: {found}") from None
    return _resolved(settings, path.resolve().parent)


def _sentence(error: ErrorDetails) -> str:
    return f"{'.'.join(map(str, error['loc'])) or 'the whole'}: {error['msg']}"


def _resolved(settings: ServerSettings, base: Path) -> ServerSettings:
    def below(path: Path) -> Path:
        return base / path.expanduser()

    tls = settings.tls and TlsSettings(certificate=below(settings.tls.certificate), key=below(settings.tls.key))
    skills = settings.skills and below(settings.skills)
    return settings.model_copy(update={"data_dir": below(settings.data_dir), "tls": tls, "skills": skills})
