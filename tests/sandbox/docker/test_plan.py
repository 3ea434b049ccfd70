"""What a container is made of (sandbox/docker/plan.py); the daemon's own tests are in test_isolation.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandbox.base import SKILLS, WORKSPACE, sandbox_id
from sandbox.config import SandboxLimits
from sandbox.docker.plan import CONFIG, FOLDER, INSTANCE, PLACES, SANDBOX, Plan
from sandbox.files.paths import Bind
from sandbox.policy import Limits

PLAN = Plan(
    instance="one",
    image="sha256:1234",
    uid=60_700,
    gid=60_700,
    limits=Limits.of(SandboxLimits()),
    network=None,
    runtime=None,
    host_paths={},
    shared=(Bind(source=Path("/srv/skills"), target=SKILLS, read_only=True),),
    system_calls='{"defaultAction":"SCMP_ACT_ERRNO"}',
)
FOLDER_HERE = Path("/data/threads/t/user-data")
OWN = (Bind(source=FOLDER_HERE / "workspace", target=WORKSPACE, read_only=False),)


def body(plan: Plan = PLAN) -> dict[str, Any]:
    return plan.body("thread", FOLDER_HERE, OWN)


def test_name_and_labels_find_it_again() -> None:
    assert PLAN.name(sandbox_id("thread")) == f"antler-one-{sandbox_id('thread')}"
    assert body()["Labels"] == {
        INSTANCE: "one",
        SANDBOX: sandbox_id("thread"),
        CONFIG: PLAN.digest(),
        FOLDER: str(FOLDER_HERE),
        PLACES: "",
    }


def test_it_can_do_nothing_that_a_command_does_not_need() -> None:
    host = body()["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"]
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges:true", 'seccomp={"defaultAction":"SCMP_ACT_ERRNO"}']
    assert not host["Privileged"]
    assert host["Memory"] == host["MemorySwap"]


def test_without_a_filter_of_ours_the_daemons_stays() -> None:
    assert body(replace(PLAN, system_calls=None))["HostConfig"]["SecurityOpt"] == ["no-new-privileges:true"]


def test_mounts_are_the_folders_and_nothing_else() -> None:
    mounts = [(each["Source"], each["Target"], each["ReadOnly"]) for each in body()["HostConfig"]["Mounts"]]
    assert mounts == [("/srv/skills", SKILLS, True), (f"{FOLDER_HERE}/workspace", WORKSPACE, False)]
    with_runtime = replace(PLAN, runtime=Path("/srv/runtime"))
    assert ("/srv/runtime", "/opt/antler", True) in [
        (each["Source"], each["Target"], each["ReadOnly"]) for each in body(with_runtime)["HostConfig"]["Mounts"]
    ]


def test_the_daemon_is_told_its_own_paths() -> None:
    plan = replace(PLAN, host_paths={Path("/data"): Path("/srv/antler"), Path("/data/x"): Path("/srv/x")})
    assert plan.on_host(Path("/data/threads/t")) == Path("/srv/antler/threads/t")
    assert plan.on_host(Path("/data/x/y")) == Path("/srv/x/y")
    assert plan.on_host(Path("/database")) == Path("/database")
    assert body(plan)["HostConfig"]["Mounts"][1]["Source"] == "/srv/antler/threads/t/user-data/workspace"


def test_who_keeps_the_container_is_never_who_runs_commands() -> None:
    assert body()["User"] == "65534:65534"
    assert body(replace(PLAN, uid=65_534))["User"] == "65533:65533"


@pytest.mark.parametrize(
    "changed",
    [
        {"image": "sha256:5678"},
        {"limits": Limits.of(SandboxLimits(memory_mb=512))},
        {"network": "egress"},
        {"runtime": Path("/srv/runtime")},
        {"shared": ()},
        {"system_calls": None},
        {"host_paths": {Path("/srv"): Path("/mnt/srv")}},
    ],
)
def test_every_change_of_the_settings_makes_another_digest(changed: dict[str, Any]) -> None:
    assert replace(PLAN, **changed).digest() != PLAN.digest()


def test_the_thread_is_no_part_of_the_digest() -> None:
    assert body()["Labels"][CONFIG] == PLAN.body("another", Path("/elsewhere"), ())["Labels"][CONFIG]  # type: ignore[index]
