"""Control groups: found by what the kernel says, made with their limits, removed with all that is in them."""

from __future__ import annotations

import os
import subprocess
import uuid
from pathlib import Path

import pytest

from sandbox.config import SandboxLimits
from sandbox.kernel.cgroups import OWN_PROCESSES, Group, Groups, Hierarchy, Unified, find, here
from sandbox.policy import Limits

LIMITS = Limits.of(SandboxLimits(memory_mb=64, processes=8, cpus=0.5))


def unified(folder: Path, controllers: str = "cpu memory pids") -> Path:
    """The files of a delegated v2 group; the kernel makes them, so the children's are missing."""
    folder.mkdir(parents=True)
    (folder / "cgroup.controllers").write_text(controllers)
    (folder / "cgroup.subtree_control").write_text("")
    (folder / "cgroup.procs").write_text("")
    return folder


def mountinfo(point: Path, kind: str, options: str, root: str = "/") -> str:
    return f"30 20 0:26 {root} {point} rw,relatime shared:9 - {kind} {kind} {options}\n"


def test_a_delegated_unified_group_is_taken(tmp_path: Path) -> None:
    own = unified(tmp_path / "system.slice" / "antler.service")
    found = find(mountinfo(tmp_path, "cgroup2", "rw"), "0::/system.slice/antler.service\n")
    assert found is not None
    assert isinstance(found.version, Unified)
    assert found.parents == dict.fromkeys(("memory", "pids", "cpu"), own)
    assert (own / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"


def test_a_unified_hierarchy_without_controllers_is_left_for_the_others(tmp_path: Path) -> None:
    unified(tmp_path / "unified", controllers="")
    (tmp_path / "memory" / "box").mkdir(parents=True)
    mounts = mountinfo(tmp_path / "unified", "cgroup2", "rw") + mountinfo(tmp_path / "memory", "cgroup", "rw,memory")
    found = find(mounts, "4:memory:/box\n0::/\n")
    assert found is not None
    assert found.parents == {"memory": tmp_path / "memory" / "box"}


def test_a_mount_shows_the_tree_from_its_root_on(tmp_path: Path) -> None:
    """In a container: /proc/self/cgroup names the host's path, the mount begins below it."""
    (tmp_path / "memory").mkdir()
    found = find(mountinfo(tmp_path / "memory", "cgroup", "rw,memory", root="/docker/x"), "4:memory:/docker/x\n")
    assert found is not None
    assert found.parents == {"memory": tmp_path / "memory"}


def test_nothing_mounted_is_nothing_found() -> None:
    assert find("", "0::/\n") is None


def test_what_the_unified_version_is_told(tmp_path: Path) -> None:
    Group(Hierarchy(Unified(), dict.fromkeys(("memory", "pids", "cpu"), tmp_path)), "g").make(LIMITS)
    told = {path.name: path.read_text() for path in (tmp_path / "g").iterdir()}
    assert told == {"memory.max": str(64 << 20), "pids.max": str(8 + OWN_PROCESSES), "cpu.max": "50000 100000"}


def test_without_a_hierarchy_there_are_no_groups_and_all_is_missing() -> None:
    groups = Groups("none", lambda: None)
    groups.start(LIMITS)
    assert groups.group("g", LIMITS) is None
    assert groups.controllers == frozenset()
    groups.close()


@pytest.fixture
def name() -> str:
    if os.geteuid() != 0 or here() is None:
        pytest.skip("no control groups here for this user")
    return f"antler-test-{uuid.uuid4().hex[:8]}"


def test_a_group_holds_ends_and_is_removed(name: str) -> None:
    """On this machine's own hierarchies."""
    groups = Groups(name, here)
    groups.start(LIMITS)
    group = groups.group("g", LIMITS)
    assert group is not None
    with subprocess.Popen(["/bin/sleep", "600"]) as member:
        for entrance in group.entrances:
            Path(entrance).write_text(str(member.pid))
        assert group.out_of_memory() == 0
        group.remove()
        assert member.wait(60) == -9
    assert not any(Path(entrance).exists() for entrance in group.entrances)
    groups.close()


def test_what_a_killed_gateway_left_behind_is_removed_at_the_start(name: str) -> None:
    before = Groups(name, here)
    before.start(LIMITS)
    left = before.group("left", LIMITS)
    assert left is not None
    with subprocess.Popen(["/bin/sleep", "600"]) as member:
        for entrance in left.entrances:
            Path(entrance).write_text(str(member.pid))
        after = Groups(name, here)
        after.start(LIMITS)
        assert member.wait(60) == -9
    assert not any(Path(entrance).exists() for entrance in left.entrances)
    after.close()
