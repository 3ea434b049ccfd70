"""What the resources tell and do, over real HTTP: turns, decisions, access, transcripts, usage, belongings."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from bot.http.resources.accounting import MOST_SERIES
from bot.store import schedules, usage
from bot.store.schedules import ScheduleRow
from bot.store.usage import UsageRow
from channels.message import Address
from harness.config import PriceSettings
from harness.context import HistoryEntry
from harness.events import (
    FailureKind,
    SubagentEnded,
    SubagentStarted,
    SubagentState,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Usage,
)
from harness.guardrails.approvals import ADMINS
from harness.memory.config import MemorySettings
from tests.bot.core import ANN, BOB, RULES
from tests.bot.http.served import ADMIN, PERSON, ServedCore, served
from tests.bot.runs.test_approvals import asks

if TYPE_CHECKING:
    from pathlib import Path

    import httpx


async def post(world: ServedCore, client: httpx.AsyncClient, path: str, body: Any = None) -> httpx.Response:
    answer = await client.post(path, json=body)
    await world.clock.settle()
    return answer


async def turns(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.get("/api/turns", params={"everybody": "true"})).json()["turns"]
    return found


async def test_a_turn_is_stopped_run_and_dropped_in_the_order_of_its_chat(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        admin = await world.program(ADMIN)
        gates = [world.harness.hold(text) for text in ("one", "two", "three")]
        for text in ("one", "two", "three"):
            await world.say(text, BOB, name="Bob")
        await world.clock.advance(10)
        first, second, third = await turns(admin)
        assert [(each["state"], each["place"]) for each in (first, second, third)] == [
            ("running", 0), ("queued", 1), ("queued", 2),
        ]  # fmt: skip
        assert [each["actions"] for each in (first, second)] == [["stop"], ["run_now", "drop"]]
        assert (first["name"], first["seconds"], first["own"]) == ("Bob", 10.0, False)
        assert (await post(world, admin, f"/api/turns/{third['run_id']}/run-now")).json() == {"done": "now"}
        await world.clock.advance(1)
        running = (await turns(admin))[0]
        assert running["run_id"] == third["run_id"], "what ran is stopped, and this one is next"
        assert (await post(world, admin, f"/api/turns/{second['run_id']}/drop")).json() == {"done": "drop"}
        assert (await post(world, admin, f"/api/turns/{third['run_id']}/stop")).json() == {"done": "stop"}
        await world.answered()
        assert await turns(admin) == []
        assert (await post(world, admin, f"/api/turns/{third['run_id']}/stop")).json() == {"done": "over"}
        assert "⏹ Dropped by an administrator." in world.texts(BOB)
        assert not any(gate.is_set() for gate in gates)


async def test_who_asked_stops_their_own_answer_and_drops_what_waits_by_stop_too(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob = await world.program(PERSON, "read", "runs")
        world.harness.hold("one")
        await world.say("one", BOB)
        await world.say("two", BOB)
        first, second = (await bob.get("/api/turns")).json()["turns"]
        assert (first["words"], first["own"]) == ("one", True)
        assert (await post(world, bob, f"/api/turns/{second['run_id']}/stop")).json() == {"done": "drop"}
        assert (await post(world, bob, f"/api/turns/{first['run_id']}/stop")).json() == {"done": "stop"}
        await world.answered()
        assert "⏹ Dropped." in world.texts(BOB)


async def test_a_request_is_decided_once_and_its_card_in_the_chat_says_so(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob = await world.program(PERSON, "read", "runs")
        asks(world, "send it")
        await world.say("send it", BOB)
        await world.clock.advance(2)
        (asked,) = (await bob.get("/api/approvals")).json()
        assert (asked["tool"], asked["arguments"], asked["decisions"]) == (
            "send", "to: ```\nall", ["once", "chat", "deny"],
        )  # fmt: skip
        wrong = await bob.post(f"/api/approvals/{asked['id']}", json={"decision": "yes"})
        assert wrong.status_code == 422
        denied = await post(world, bob, f"/api/approvals/{asked['id']}", {"decision": "deny", "reason": " not  now "})
        assert denied.json() == {"done": "deny"}
        await world.answered()
        assert "allowed: False not now" in world.texts(BOB)
        assert (await bob.post(f"/api/approvals/{asked['id']}", json={"decision": "once"})).json() == {"done": "over"}
        assert (await bob.get("/api/approvals")).json() == []


async def test_what_only_administrators_can_allow_is_shown_to_them_and_allowed_by_them(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        admin, bob = await world.program(ADMIN), await world.program(PERSON, "read", "runs")
        asks(world, "install it", coverage=f"{ADMINS}:x")
        await world.say("install it", BOB)
        await world.clock.advance(2)
        (theirs,), (asked,) = (await bob.get("/api/approvals")).json(), (await admin.get("/api/approvals")).json()
        assert (theirs["decisions"], asked["decisions"]) == (["deny"], ["once", "deny"])
        assert asked["arguments"] == "to: ```\nall"
        assert (await bob.post(f"/api/approvals/{asked['id']}", json={"decision": "once"})).status_code == 403
        allowed = await post(world, admin, f"/api/approvals/{asked['id']}", {"decision": "chat"})
        assert allowed.json() == {"done": "once"}, "it is asked for each time"
        await world.answered()
        assert "allowed: True" in world.texts(BOB)


async def test_strangers_are_let_in_and_kept_out(tmp_path: Path) -> None:
    async with served(tmp_path, replace(RULES, pairing=True)) as world:
        admin = await world.program(ADMIN)
        await world.say("hello", "777", name="Carla")
        await world.say("hello", "888", name="Dan")
        carla, dan = (await admin.get("/api/pairings")).json()
        assert (carla["subject"], carla["name"], carla["kind"]) == ("memory:777", "Carla", "person")
        row = world.editor.book.row("person", "memory:777")
        assert row is not None
        assert str(row.code_hash) not in str(carla), "the hash would let a code be guessed"
        entry = await post(world, admin, f"/api/pairings/{carla['id']}", {"let_in": True})
        assert (entry.json()["state"], entry.json()["by"]) == ("paired", ADMIN)
        assert (await post(world, admin, f"/api/pairings/{dan['id']}", {"let_in": False})).json()["state"] == "refused"
        assert (await admin.post(f"/api/pairings/{carla['id']}", json={"let_in": True})).status_code == 404
        await world.say("and now?", "777", name="Carla")
        await world.say("and now?", "888", name="Dan")
        await world.answered()
        assert "echo: and now?" in world.texts("777")
        assert "echo: and now?" not in world.texts("888")


async def test_a_code_lets_in_and_wrong_ones_are_counted(tmp_path: Path) -> None:
    async with served(tmp_path, replace(RULES, pairing=True)) as world:
        admin = await world.program(ADMIN)
        await world.say("hello", "777", name="Carla")
        code = world.texts("777")[0].split("`")[1]
        for _ in range(3):
            assert (await admin.post("/api/pairings", json={"code": "AAAA-BBBB-CCCC"})).status_code == 404
        assert (await post(world, admin, "/api/pairings", {"code": code.lower()})).json()["subject"] == "memory:777"
        for _ in range(2):
            await admin.post("/api/pairings", json={"code": "AAAA-BBBB-CCCC"})
        assert (await admin.post("/api/pairings", json={"code": code})).status_code == 429


async def test_access_is_given_and_taken_by_id(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        admin = await world.program(ADMIN)
        assert (await admin.post("/api/access", json={"subject": "memory:55"})).json()["state"] == "allowed"
        assert (await admin.post("/api/access", json={"subject": "memory:55"})).json()["error"]["code"] == "in_already"
        listed = (await admin.get("/api/access", params={"account": "memory"})).json()
        assert {"memory:55": "", ADMIN: "access.admins"}.items() <= {e["subject"]: e["key"] for e in listed}.items()
        assert (await admin.delete("/api/access/memory:55")).json()["state"] == "blocked"
        config = await admin.delete(f"/api/access/{PERSON}")
        assert (config.status_code, config.json()["error"]["code"]) == (422, "in_config")
        assert (await admin.get("/api/access", params={"account": "nosuch"})).status_code == 404


async def test_a_transcript_has_the_steps_their_times_and_the_cost(tmp_path: Path) -> None:
    prices = {"sim": PriceSettings(input=2, output=8, currency="EUR")}
    async with served(tmp_path, prices=prices) as world:
        world.harness.tells(
            "count",
            lambda t: t(TextDelta, message_id="m1", text="I look first."),
            lambda t: t(ToolStarted, call_id="c1", tool="bash", summary="wc -l", description="Count lines"),
            lambda t: t(ToolEnded, call_id="c1", tool="bash", ok=False),
            lambda t: t(SubagentStarted, call_id="c2", subagent="general-purpose", description="Look it up"),
            lambda t: t(SubagentEnded, call_id="c2", state=SubagentState.COMPLETED, seconds=14, model_calls=2),
            lambda t: t(Usage, model="sim", input_tokens=1_000_000, output_tokens=1000, cached_tokens=0),
            lambda t: t(TextDelta, message_id="m2", text="Seven."),
            lambda t: t.answer("Seven."),
        )
        await world.say("count", name="Ann")
        await world.answered()
        world.harness.tells("break", lambda t: t.failed(FailureKind.OVERLOADED))
        await world.say("break")
        await world.answered()
        ann = await world.program(ADMIN, "read")
        (listed,) = (await ann.get("/api/transcripts")).json()["threads"]
        world.harness.said[listed["thread_id"]] = [
            HistoryEntry(message_id="m0", role="user", text="older words"),
            HistoryEntry(message_id="a0", role="assistant", text="older answer"),
            HistoryEntry(message_id="m1", role="user", text="count"),
        ]
        told = (await ann.get(f"/api/transcripts/{listed['thread_id']}")).json()
        assert [each["text"] for each in told["earlier"]] == ["older words", "older answer"]
        first, second = told["exchanges"]
        assert [(s["kind"], s["title"], s["text"], s["ok"], s["seconds"]) for s in first["steps"]] == [
            ("text", "", "I look first.", None, None),
            ("tool", "bash", "Count lines", False, None),
            ("subagent", "general-purpose", "Look it up", True, 14.0),
        ]
        assert (first["words"], first["answer"], first["whole"], first["models"]) == ("count", "Seven.", True, ["sim"])
        assert first["cost"] == {
            "input": 1_000_000, "output": 1000, "cached": 0, "calls": 1, "money": {"EUR": pytest.approx(2.008)},
        }  # fmt: skip
        assert (second["state"], second["failure"], second["answer"]) == ("error", "overloaded", "")
        now = (await (await world.program(ADMIN)).get("/api/now")).json()
        assert now["pace"]["endings"] == {"success": 1, "error": 1}
        assert [each["run_id"] for each in now["failures"]] == [second["run_id"]]


async def test_usage_is_told_by_day_and_name_to_whom_it_concerns(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        now = world.clock.now()
        rows = [
            row(f"{speaker} {day} {model}", speaker, model, now - timedelta(days=day))
            for speaker in (ADMIN, PERSON)
            for day in (0, 1, 40)
            for model in ("main", "small")
        ]
        await world.store.write(lambda tx: usage.add(tx, rows))
        admin, bob = await world.program(ADMIN), await world.program(PERSON, "read")
        own = (await bob.get("/api/usage", params={"days": 7})).json()
        assert (own["everybody"], len(own["days"]), own["total"]["calls"], own["today"]["calls"]) == (False, 7, 4, 2)
        assert own["series"][0]["days"] == [0, 0, 0, 0, 0, 110, 110]
        every = (await admin.get("/api/usage", params={"days": 90, "by": "person", "everybody": "true"})).json()
        assert {each["name"]: each["cost"]["calls"] for each in every["series"]} == {ADMIN: 6, PERSON: 6}
        for bad in ({"days": 0}, {"days": 91}, {"by": "colour"}):
            assert (await bob.get("/api/usage", params=bad)).status_code == 422
        many = [row(f"m{n}", ADMIN, f"model{n}", now, tokens=100 + n) for n in range(MOST_SERIES + 3)]
        await world.store.write(lambda tx: usage.add(tx, many))
        told = (await admin.get("/api/usage", params={"days": 1})).json()["series"]
        assert (len(told), told[-1]["name"], told[-1]["cost"]["calls"]) == (MOST_SERIES, "", MOST_SERIES + 3 + 2 - 7)


def row(call: str, speaker: str, model: str, at: Any, tokens: int = 100) -> UsageRow:
    return UsageRow(
        call=call,
        run_id="r",
        thread_id="t",
        conversation=speaker,
        speaker=speaker,
        model=model,
        input_tokens=tokens,
        output_tokens=10,
        cached_tokens=0,
        cost=None,
        currency=None,
        at=at,
    )


async def test_schedules_are_their_persons_to_read_and_operators_to_cancel(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        now = world.clock.now()
        made = ScheduleRow(
            id="abc",
            address=Address(account="memory", chat=BOB),
            conversation=PERSON,
            person=PERSON,
            name="Bob",
            language="en",
            text="call the doctor",
            kind="once",
            spec=(now + timedelta(days=1)).isoformat(),
            timezone="UTC",
            next_at=now + timedelta(days=1),
            created_at=now,
        )
        await world.store.write(lambda tx: schedules.create(tx, made))
        admin, bob = await world.program(ADMIN), await world.program(PERSON, "read", "threads")
        assert [each["text"] for each in (await bob.get("/api/schedules")).json()] == ["call the doctor"]
        assert (await admin.get("/api/schedules")).json() == []
        (seen,) = (await admin.get("/api/schedules", params={"everybody": "true"})).json()
        assert (seen["text"], seen["name"]) == (None, "Bob")
        page = await (await world.browser(ADMIN)).get("/schedules", params={"all": "yes"})
        assert "doctor" not in page.text
        assert (await admin.delete("/api/schedules/abc")).json()["id"] == "abc"
        assert (await bob.get("/api/schedules")).json() == []
        assert (await bob.delete("/api/schedules/abc")).status_code == 404


async def test_ones_own_memory_is_read_and_changed(tmp_path: Path) -> None:
    async with served(tmp_path, memory_settings=MemorySettings(enabled=True)) as world:
        bob = await world.program(PERSON, "read", "threads")
        added = (await bob.post("/api/memory", json={"text": "I live in Oslo."})).json()["items"]
        assert [(each["text"], each["editable"]) for each in added] == [("I live in Oslo.", True)]
        fact = added[0]["id"]
        assert (await bob.put(f"/api/memory/{fact}", json={"text": "I live in Bergen."})).json()["items"][0][
            "text"
        ] == "I live in Bergen."
        refused = await bob.post("/api/memory", json={"text": "My password is hunter2hunter2"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "not_kept")
        assert (await bob.put("/api/memory", json={"on": False})).json()["off"] is True
        assert (await bob.delete(f"/api/memory/{fact}")).json()["items"] == []
        assert (await bob.delete(f"/api/memory/{fact}")).status_code == 404
        assert (await bob.put("/api/memory", json={"on": True})).json()["off"] is False
        await bob.post("/api/memory", json={"text": "I like tea."})
        assert (await bob.delete("/api/memory")).json()["items"] == []


async def test_a_gateway_that_remembers_nobody_says_so(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob = await world.program(PERSON, "read", "threads")
        assert (await bob.get("/api/memory")).json() == {
                "enabled": False, "off": False, "agent": "", "agents": [], "items": [],
            }  # fmt: skip
        assert (await bob.post("/api/memory", json={"text": "I like tea."})).json()["error"]["code"] == "disabled"


async def test_what_is_misspelt_is_told(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        admin = await world.program(ADMIN)
        answer = await admin.post("/api/access", json={"subject": "memory:5", "adminn": True})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid")
        assert "adminn" in answer.text


async def test_agents_models_and_skills_are_listed(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob = await world.program(PERSON, "read")
        models = (await bob.get("/api/models")).json()
        assert [(each["name"], each["default"]) for each in models] == [("main", True), ("other", False)]
        assert (await bob.get("/api/agents")).json()[0]["name"] == "default"
        assert (await bob.get("/api/skills")).json()["waiting"] == []
        assert (await bob.get("/api/health")).json()["well"] is True
        admin = await world.program(ADMIN)
        broken = await admin.put("/api/uploads/skills/x.zip", content=b"no archive")
        assert (broken.status_code, broken.json()["error"]["code"]) == (422, "skill_refused")
        assert (await admin.delete("/api/skills/nosuch")).status_code == 404


async def test_accounts_are_told_in_both_directions(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        admin = await world.program(ADMIN)
        await world.say("hello", ANN)
        await world.answered()
        now = (await admin.get("/api/now")).json()
        own = next(each for each in now["accounts"] if each["name"] == "memory")
        assert (own["receiving"], own["sending"], own["healthy"]) == ("connected", "works", True)
        assert (now["health"]["well"], now["troubles"]) == (True, [])
        assert now["pace"]["first_words"]["count"] == 1
