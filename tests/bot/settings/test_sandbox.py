"""The settings of the sandbox: wrong ones are told with the place and the nearest right word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bot.access.store import policy_of
from tests.bot.settings_files import CHANNELS, found, settings_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("section", "key", "message"),
    [
        ("{use: bublewrap}", "use", "unknown provider; did you mean bubblewrap?"),
        ("{use: kvm}", "use", "unknown provider; known: bubblewrap, docker, host, landlock, module:Class, off"),
        ("{use: 'no_such_package:Provider'}", "use", "its Python package is not installed"),
        ("{limits: {memory: 5}}", "limits.memory", "unknown key; did you mean memory_mb?"),
        ("{limits: {processes: many}}", "limits.processes", "should be a whole number"),
        ("{mounts: [{path: /mnt/x, host: /no/such/folder}]}", "mounts[0].host", "is not a folder on this machine"),
        ("{mounts: [{path: /srv/x, host: /tmp}]}", "mounts[0].path", "should be /mnt/<name>"),
        ("{mounts: [{path: /mnt/x, host: /tmp, read: 1}]}", "mounts[0].read", "unknown key; did you mean read_only?"),
        ("{network: {mode: egres}}", "network.mode", "'; did you mean egress?"),
        (
            "{network: egress}",
            "network",
            "a mode with network access needs hosts in allow",
        ),
        ("{docker: {replicas: 0}}", "docker.replicas", "should be greater than or equal to 1"),
    ],
)
def test_a_wrong_value_is_told_with_its_place(tmp_path: Path, section: str, key: str, message: str) -> None:
    problems = found(tmp_path, CHANNELS + f"sandbox: {section}\n")
    assert list(problems) == [f"sandbox.{key}"]
    assert message in problems[f"sandbox.{key}"]


def test_off_is_a_word(tmp_path: Path) -> None:
    assert settings_of(tmp_path, CHANNELS + "sandbox: {use: off}\n").sandbox.use == "off"


def test_commands_that_nothing_holds_are_for_admins_alone(tmp_path: Path) -> None:
    for use, alone in (("bubblewrap", False), ("host", True)):
        settings = settings_of(tmp_path, CHANNELS + f"sandbox: {{use: {use}, host: {{allow_host_bash: true}}}}\n")
        assert policy_of(settings, "telegram").access.admins_only is alone
