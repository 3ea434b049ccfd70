"""What a container of an all-in-one image is made of (sandbox/docker/plan.py)."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from sandbox.docker.plan import CONFIG, AllInOnePlan
from tests.sandbox.docker.test_plan import FOLDER_HERE, OWN, PLAN

ALL_IN_ONE = AllInOnePlan(**{each.name: getattr(PLAN, each.name) for each in fields(PLAN)})


def body() -> dict[str, Any]:
    return ALL_IN_ONE.body("thread", FOLDER_HERE, OWN)


def environment(made: dict[str, Any]) -> dict[str, str]:
    return dict(each.split("=", 1) for each in made["Env"])


def test_the_image_starts_its_own_programs() -> None:
    assert not {"Entrypoint", "Cmd", "User", "WorkingDir"} & body().keys()
    assert body()["HostConfig"]["Init"]  # which adopts what they leave behind


def test_it_holds_what_a_plain_one_holds_but_for_the_images_root() -> None:
    plain, host = PLAN.body("thread", FOLDER_HERE, OWN)["HostConfig"], body()["HostConfig"]
    assert isinstance(plain, dict)
    changed = {name for name in plain | host if plain.get(name) != host.get(name)}
    assert changed == {"ReadonlyRootfs", "CapAdd", "SecurityOpt", "Ulimits"}
    assert host["Ulimits"] == [{"Name": "core", "Soft": 0, "Hard": 0}]  # the others are set around each command
    assert "no-new-privileges:true" in host["SecurityOpt"]


def test_the_images_own_programs_run_as_another_user_than_commands() -> None:
    told = environment(body())
    assert (told["USER_UID"], told["USER_GID"]) == ("60701", "60701")
    assert ALL_IN_ONE.is_no_commands(60_701)
    assert not ALL_IN_ONE.is_no_commands(ALL_IN_ONE.uid)


def test_the_key_is_another_each_time_and_no_part_of_the_digest() -> None:
    one, two = body(), body()
    assert environment(one)["SANDBOX_API_KEY"] != environment(two)["SANDBOX_API_KEY"]
    assert one["Labels"][CONFIG] == two["Labels"][CONFIG]
    assert "SANDBOX_API_KEY" not in str(one["Labels"])


def test_the_way_in_is_part_of_the_digest() -> None:
    assert ALL_IN_ONE.digest() != PLAN.digest()
    assert replace(ALL_IN_ONE, runtime=Path("/srv/runtime")).digest() != ALL_IN_ONE.digest()


def test_what_is_weaker_is_said() -> None:
    assert PLAN.shortfalls == ()
    said = " ".join(ALL_IN_ONE.shortfalls)
    assert all(each in said for each in ("own programs", "writable root", "filter of system calls"))
    without = replace(ALL_IN_ONE, system_calls=None)  # which is said elsewhere then
    assert "filter of system calls" not in " ".join(without.shortfalls)
    assert "on the containers' network" not in said
    assert "on the containers' network" in " ".join(replace(ALL_IN_ONE, network="egress").shortfalls)
