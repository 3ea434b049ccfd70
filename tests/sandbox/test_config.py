"""The settings section `sandbox:`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from sandbox.config import MountSettings, NetworkSettings, SandboxLimits, SandboxSettings
from tests.tables import table

if TYPE_CHECKING:
    from pydantic import BaseModel

HOSTS = ("localhost", "*", "a..b", "a.org.", "-a.org", "10.0.0.1", "evil\0.org", "a%2e.org", "[::1]", "*.org.*")
PATHS = ("/etc", "/mnt/", "/mnt/a/b", "/mnt/..", "/mnt/skills", "/mnt/user-data", "docs")


def test_the_defaults_are_closed() -> None:
    settings = SandboxSettings()
    assert (settings.use, settings.network.mode) == ("bubblewrap", "none")
    assert (settings.mounts, settings.environment) == ((), {})
    assert MountSettings.model_validate({"path": "/mnt/docs", "host": "/srv/docs"}).read_only
    assert settings.uid >= 1000


def test_it_can_be_written_shortly() -> None:
    settings = SandboxSettings.model_validate(
        {
            "use": "my.company.sandbox:Provider",
            "network": {"mode": "egress", "allow": ["Api.net", "*.example.org"]},
            "environment": {"LANG": "C.UTF-8"},
        }
    )
    assert settings.network.allow == ("api.net", "*.example.org")
    assert SandboxSettings.model_validate({"network": "none"}).network == NetworkSettings()


@table(
    "wrong",
    [
        {"use": "bubblewarp"},
        {"use": "os;system"},
        {"unknown": 1},
        {"network": "egress"},
        {"network": {"mode": "none", "allow": ["api.net"]}},
        *({"network": {"mode": "egress", "allow": [host]}} for host in HOSTS),
        *({"mounts": [{"path": path, "host": "/srv"}]} for path in PATHS),
        *({"mounts": [{"path": "/mnt/docs", "host": host}]} for host in ("/", "srv", "/srv/../etc")),
        {"mounts": [{"path": "/mnt/a", "host": "/srv"}, {"path": "/mnt/a", "host": "/opt"}]},
        {"environment": {"A B": "x"}},
        {"environment": {"A": "x\0y"}},
        {"limits": {"memory_mb": 1}},
        {"limits": {"command_seconds": 1000}},
        {"limits": {"file_mb": 2048}},
        {"uid": 0},
        {"docker": {"api_port": 8080}},
    ],
)
def test_what_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SandboxSettings.model_validate(wrong)


@pytest.mark.parametrize("section", [SandboxSettings, SandboxLimits, MountSettings, NetworkSettings])
def test_every_setting_is_described(section: type[BaseModel]) -> None:
    assert all(field.description for field in section.model_fields.values())
