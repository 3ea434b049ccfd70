"""What is said when there can be no containers, and what to do about it."""

from __future__ import annotations

import asyncio
import io
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.base import SandboxUnavailable
from sandbox.config import DockerSettings, SandboxSettings
from sandbox.docker import checks
from sandbox.docker.api import DockerApi
from sandbox.docker.checks import profile
from sandbox.files.beneath import Owner, acting_as

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sandbox.docker.conftest import Gateway
    from tests.sandbox.docker.daemon import Daemon


async def test_no_daemon(gateway: Gateway, tmp_path: Path) -> None:
    provider = gateway.make(host=f"unix://{tmp_path}/none.sock")
    with pytest.raises(SandboxUnavailable, match="cannot be reached") as caught:
        await provider.start()
    assert "systemctl start docker" in caught.value.hint
    assert str(tmp_path) not in str(caught.value)


async def test_no_permission(daemon: Daemon) -> None:
    async def ask() -> None:
        api = DockerApi(daemon.host)
        try:
            await api.info()
        finally:
            await api.close()

    def as_somebody_else() -> None:
        with acting_as(Owner(60_701, 60_701)):
            asyncio.run(ask())

    with pytest.raises(SandboxUnavailable, match="no permission to use") as caught:
        await asyncio.to_thread(as_somebody_else)
    assert "group docker" in caught.value.hint


async def test_no_image(gateway: Gateway) -> None:
    provider = gateway.make(image="nobody/has-this:1")
    with pytest.raises(SandboxUnavailable, match="the image nobody/has-this:1 does not exist") as caught:
        await provider.start()
    assert caught.value.hint == "docker pull nobody/has-this:1"


async def test_an_image_without_a_shell(gateway: Gateway) -> None:
    archive = io.BytesIO()
    tarfile.open(fileobj=archive, mode="w").close()
    with gateway.daemon.client() as client:
        query = {"fromSrc": "-", "repo": "antler-test", "tag": "empty"}
        client.post("/images/create", params=query, content=archive.getvalue()).raise_for_status()
    provider = gateway.make(image="antler-test:empty")
    with pytest.raises(SandboxUnavailable) as caught:
        await provider.start()
    assert "should name an image with" in caught.value.hint
    assert gateway.containers() == {}


async def test_no_network(gateway: Gateway) -> None:
    egress = {"network": {"mode": "egress", "allow": ["api.example.com"]}}
    with pytest.raises(SandboxUnavailable, match="allow list"):
        gateway.make(egress)
    provider = gateway.make(egress, network="nowhere")
    with pytest.raises(SandboxUnavailable, match="the network nowhere does not exist"):
        await provider.start()


async def test_a_daemon_that_does_not_find_the_folders(gateway: Gateway) -> None:
    provider = gateway.make(host_paths={str(gateway.data): "/nowhere"})
    with pytest.raises(SandboxUnavailable, match="cannot find") as caught:
        await provider.start()
    assert "host_paths" in caught.value.hint


def test_a_network_of_ones_own_is_not_the_hosts() -> None:
    with pytest.raises(ValueError, match="dedicated network"):
        DockerSettings(network="host")


@pytest.mark.parametrize("host", ["/var/run/docker.sock", "/run", "/var/run", "/srv/daemon"])
def test_the_daemons_socket_is_never_mounted(host: str) -> None:
    settings = SandboxSettings.model_validate({"mounts": [{"path": "/mnt/x", "host": host}]})
    docker = DockerSettings(host="unix:///srv/daemon/docker.sock")
    with pytest.raises(SandboxUnavailable, match="equivalent to root"):
        checks.refuse_settings(settings, docker)


def test_other_folders_can_be_mounted(tmp_path: Path) -> None:
    settings = SandboxSettings.model_validate({"mounts": [{"path": "/mnt/x", "host": str(tmp_path)}]})
    checks.refuse_settings(settings, DockerSettings())


@pytest.mark.parametrize("option", ["name=rootless", "name=userns"])
def test_a_daemon_that_maps_users(option: str) -> None:
    with pytest.raises(SandboxUnavailable, match="maps users"):
        checks.shortfalls({"OSType": "linux", "SecurityOptions": ["name=seccomp,profile=default", option]})


INFO: dict[str, Any] = {
    "OSType": "linux",
    "Architecture": "x86_64",
    "SecurityOptions": ["name=apparmor", "name=seccomp,profile=default"],
    "MemoryLimit": True,
    "SwapLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
}


def test_what_a_daemon_does_not_enforce_is_said() -> None:
    common = checks.shortfalls(INFO)
    assert len(common) == 2
    assert "/sys" in common[0]
    assert "disk use" in common[1]
    assert checks.shortfalls(INFO | {"SwapLimit": False, "SecurityOptions": []}) == [
        "memory is limited, but not the swap beyond it",
        "the daemon filters no system calls (seccomp is off)",
        *common,
    ]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_containers_get_a_filter_of_ours(machine: str) -> None:
    assert checks.system_calls(INFO | {"Architecture": machine}) == profile()


def test_a_processor_without_rules_keeps_the_daemons_filter() -> None:
    other = INFO | {"Architecture": "s390x"}
    assert checks.system_calls(other) is None
    (said,) = set(checks.shortfalls(other)) - set(checks.shortfalls(INFO))
    assert "Docker's own filter" in said


def test_a_daemon_without_seccomp_is_asked_for_no_filter() -> None:
    assert checks.system_calls(INFO | {"SecurityOptions": []}) is None
