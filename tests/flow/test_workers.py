"""A gateway whose runs two workers work on: what people see is the same, whichever of the processes dies meanwhile."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from bot.texts.en import EN
from tests.flow.cluster import Cluster
from tests.flow.freezing import FREEZES
from tests.flow.letters import Letters
from tests.flow.resting import GIVEN_BACK
from tests.flow.sandboxed import bash, require_bubblewrap, until_gone, until_running
from tests.simulators.telegram.seen import ALICE

if TYPE_CHECKING:
    from tests.flow.gateway import World
    from tests.simulators.postgres import PostgresServer

pytestmark = pytest.mark.postgres

FIRST_HALF = "The first half of the answer"
WHOLE = "The first half of the answer, and the second half."
ONCE = next(iter(EN.approval_buttons.values()))


@pytest.fixture
def cluster(world: World, postgres: PostgresServer) -> Cluster:
    return Cluster(world, postgres)


async def test_an_answer_grows_and_is_delivered(cluster: Cluster) -> None:
    world = cluster.world
    async with cluster:
        await world.telegram.user_says("!pause half")
        draft = await world.telegram.wait_for_text(ALICE, FIRST_HALF)
        assert "second half" not in draft.text
        await world.model.release("half")
        answer = await world.telegram.wait_for_text(ALICE, WHOLE)
        assert answer.message_id == draft.message_id
        await world.telegram.wait_idle(ALICE)
        assert [message.text for message in await world.telegram.bot_messages(ALICE)] == [WHOLE]
        assert "Traceback" not in world.log
        assert not any("no gateway has ever run" in worker.log for worker in cluster.workers.values())


async def test_gateway_and_worker_give_memory_back_when_they_rest(cluster: Cluster) -> None:
    world = cluster.world
    cluster.count, world.program = 0, "tests.flow.resting"
    async with cluster:
        worker = await cluster.start_worker("resting", program=world.program)
        for number in range(3):
            await world.telegram.user_says(f"!say answer {number}")
            await world.telegram.wait_for_text(ALICE, f"answer {number}")
        await worker.wait_for_log(GIVEN_BACK)
        await world.wait_for_log(GIVEN_BACK)


async def test_a_stop_reaches_the_worker(cluster: Cluster) -> None:
    world = cluster.world
    async with cluster:
        await world.telegram.user_says("!pause half")
        await world.telegram.wait_for_text(ALICE, FIRST_HALF)
        await world.telegram.user_says("/stop")
        await world.telegram.wait_for_text(ALICE, EN.stopped_by["stopped"])
        await world.telegram.user_says("!say and now this")
        await world.telegram.wait_for_text(ALICE, "and now this")


async def test_what_is_said_meanwhile_is_heard_by_the_run(cluster: Cluster) -> None:
    world = cluster.world
    world.settings["conversations"] = {"progress": "off", "busy": "steer", "join_seconds": 0}
    plan = json.dumps({"todos": [{"content": "look", "status": "in_progress"}]})
    async with cluster:
        await world.telegram.user_says(f"!pause half\n!tool write_todos {plan}")
        await world.telegram.wait_for_text(ALICE, FIRST_HALF)
        await world.telegram.user_says("!pause later")
        await world.telegram.wait_for_text(ALICE, EN.steering)
        await world.model.release("half")
        heard = await world.model.wait_for_pause("later")
        await world.telegram.wait_for_text(ALICE, EN.steered)
        assert [m["role"] for m in heard.body["messages"]][-4:] == ["user", "assistant", "tool", "user"]
        await world.model.release("later")
        await world.telegram.wait_for_text(ALICE, f"{WHOLE}\n\n{WHOLE}")


async def test_a_call_is_made_once_a_person_allowed_it(cluster: Cluster) -> None:
    world = cluster.world
    letters = Letters(world.folder)
    world.environment |= letters.environment
    world.settings |= {
        "tools": [{"use": "tests.flow.letters:send_letter"}],
        "guardrails": {"rules": [{"tool": "send_letter", "decision": "ask"}]},
    }
    async with cluster:
        await world.telegram.user_says('!tool send_letter {"to": "Ann"}\n!say it is sent')
        asked = await world.telegram.wait_for_message(ALICE, lambda seen: "to: Ann" in seen.text and bool(seen.buttons))
        assert letters.sent == []
        pressed = await world.telegram.press(asked.message_id, ONCE)
        await world.telegram.wait_answered(pressed.callback_id)
        await world.telegram.wait_for_text(ALICE, "it is sent")
        assert len(letters.sent) == 1


@pytest.mark.long
async def test_after_the_death_of_a_worker_another_goes_on_and_repeats_no_command(cluster: Cluster, mark: str) -> None:
    require_bubblewrap()
    world = cluster.world
    async with cluster:
        await world.telegram.user_says(bash(f"echo ran >> count; sleep {mark}"))
        await until_running(mark)
        await (await cluster.at_work()).kill()
        await until_gone(mark, 5.0)
        answer = await world.telegram.wait_for_text(ALICE, "interrupted", timeout=90.0)
        assert "it may have happened, wholly, in part or not at all" in answer.text
        await world.telegram.user_says(bash("cat count"))
        counted = await world.telegram.wait_for_message(
            ALICE, lambda seen: seen.message_id > answer.message_id and "ran" in seen.text
        )
        assert counted.text.count("ran") == 1


async def test_after_the_death_of_the_gateway_the_worker_goes_on_and_the_answer_comes_once(cluster: Cluster) -> None:
    world = cluster.world
    async with cluster:
        await world.telegram.user_says("!pause half")
        await world.telegram.wait_for_text(ALICE, FIRST_HALF)
        await world.telegram.wait_idle(ALICE)
        asked = len(await world.model.requests())
        await world.kill()
        await world.model.release("half")
        await world.start()
        await world.telegram.wait_for_text(ALICE, WHOLE)
        await world.telegram.wait_idle(ALICE, quiet=2.0)
        (answer,) = await world.telegram.bot_messages(ALICE)
        assert answer.text == WHOLE
        assert len(await world.model.requests()) == asked, "the model was asked once"


@pytest.mark.parametrize("enabled", [True, False], ids=["with workers", "without them then"])
async def test_deaths_of_the_gateway_are_not_held_against_what_a_worker_does(cluster: Cluster, enabled: bool) -> None:
    world = cluster.world
    cluster.count = 1
    async with cluster:
        await world.telegram.user_says("!pause half")
        await world.telegram.wait_for_text(ALICE, FIRST_HALF)
        for number in range(3):
            await world.kill()
            world.settings["workers"] = {"enabled": enabled or number < 2}
            await world.start()
        await world.model.release("half")
        await world.telegram.wait_for_text(ALICE, WHOLE, timeout=30.0)
        assert "was in progress at" not in world.log
        assert cluster.rows("SELECT deaths FROM runs") == [("[]",)]
        if not enabled:
            assert await cluster.workers["w1"].ended() == 1


async def test_a_planned_restart_of_the_gateway_leaves_the_worker_at_work(cluster: Cluster) -> None:
    world = cluster.world
    async with cluster:
        await world.telegram.user_says("!pause half")
        await world.telegram.wait_for_text(ALICE, FIRST_HALF)
        asked = len(await world.model.requests())
        assert await world.end() == 0
        await world.model.release("half")
        await world.start()
        await world.telegram.wait_for_text(ALICE, WHOLE)
        await world.telegram.wait_idle(ALICE, quiet=2.0)
        assert [message.text for message in await world.telegram.bot_messages(ALICE)] == [WHOLE]
        assert len(await world.model.requests()) == asked, "the model was asked once"


async def test_a_planned_stop_of_a_worker_gives_its_run_to_the_other_at_once(cluster: Cluster) -> None:
    world = cluster.world
    async with cluster:
        await world.telegram.user_says("!pause half")
        await world.telegram.wait_for_text(ALICE, FIRST_HALF)
        worker = await cluster.at_work()
        worker.send(signal.SIGTERM)
        assert await worker.ended() == 0
        await world.model.release("half")
        await world.telegram.wait_for_text(ALICE, WHOLE, timeout=15.0)
        await world.telegram.wait_idle(ALICE)
        assert [message.text for message in await world.telegram.bot_messages(ALICE)] == [WHOLE]


@pytest.mark.long
async def test_a_worker_that_froze_writes_nothing_any_more(cluster: Cluster) -> None:
    world = cluster.world
    async with cluster:
        await world.telegram.user_says("!pause half")
        await world.telegram.wait_for_text(ALICE, FIRST_HALF)
        frozen = await cluster.at_work()
        asked = max(record.id for record in await world.model.requests())
        frozen.send(signal.SIGSTOP)
        await world.model.wait_for_request(lambda r: r.id > asked and r.paused_at == "half", timeout=90.0)
        frozen.send(signal.SIGCONT)
        assert await frozen.ended() != 0
        assert "taken for dead" in frozen.log
        await world.model.release("half")
        await world.telegram.wait_for_text(ALICE, WHOLE)
        await world.telegram.wait_idle(ALICE)
        assert [message.text for message in await world.telegram.bot_messages(ALICE)] == [WHOLE]


async def test_a_stop_is_told_at_once_though_the_worker_is_frozen(cluster: Cluster) -> None:
    world = cluster.world
    async with cluster:
        await world.telegram.user_says("!pause half")
        await world.telegram.wait_for_text(ALICE, FIRST_HALF)
        await world.telegram.wait_idle(ALICE)
        frozen = await cluster.at_work()
        frozen.send(signal.SIGSTOP)
        await world.telegram.user_says("/stop")
        stopped = await world.telegram.wait_for_text(ALICE, EN.stopped_by["stopped"], timeout=10.0)
        assert FIRST_HALF in stopped.text
        await world.telegram.user_says("!say and now this")
        await world.telegram.wait_for_text(ALICE, "and now this", timeout=10.0)
        frozen.send(signal.SIGCONT)
        await world.model.release("half")
        await frozen.wait_for_log("was taken from this worker")
        await world.telegram.user_says("!say and then that")
        await world.telegram.wait_for_text(ALICE, "and then that")
        await world.telegram.wait_idle(ALICE)
        assert len(await world.telegram.bot_messages(ALICE)) == 3
        *_, last = await world.model.completions()
        assert [m["role"] for m in last.body["messages"]][-3:] == ["user", "assistant", "user"]
        assert "half" not in str(last.body["messages"][1:]), "what the frozen one had not written yet is not written"
        assert frozen.process is not None
        assert frozen.process.returncode is None, "what else it works on goes on"


async def test_a_worker_that_froze_calls_no_tool_of_a_run_that_was_stopped_meanwhile(cluster: Cluster) -> None:
    world, program = cluster.world, "tests.flow.freezing"
    letters = Letters(world.folder)
    world.environment |= letters.environment
    world.settings |= {"tools": [{"use": "tests.flow.letters:send_letter"}]}
    cluster.count = 0
    async with cluster:
        frozen = await cluster.start_worker("frozen", program=program, FREEZES_AFTER="tool")
        await world.telegram.user_says('!tool send_letter {"to": "Ann"}\n!say it is done')
        await frozen.wait_for_log(FREEZES)
        await world.telegram.user_says("/stop")
        await world.telegram.wait_for_text(ALICE, EN.stopped_by["stopped"], timeout=10.0)
        frozen.send(signal.SIGCONT)
        await frozen.wait_for_log("was taken from this worker")
        await world.telegram.user_says("!say and now this")
        await world.telegram.wait_for_text(ALICE, "and now this")
        assert letters.sent == []


@pytest.mark.parametrize("step", ["model", "tool"])
async def test_a_worker_that_froze_after_a_commit_does_not_do_what_the_commit_was_for(
    cluster: Cluster, step: str
) -> None:
    world, program = cluster.world, "tests.flow.freezing"
    letters = Letters(world.folder)
    world.environment |= letters.environment
    world.settings |= {"tools": [{"use": "tests.flow.letters:send_letter"}]}
    cluster.count = 0
    async with cluster:
        frozen = await cluster.start_worker("frozen", program=program, FREEZES_AFTER=step)
        await world.telegram.user_says('!tool send_letter {"to": "Ann"}\n!say it is done')
        await frozen.wait_for_log(FREEZES)
        await cluster.start_worker("other", program=program)
        await world.telegram.wait_for_text(ALICE, "it is done")
        asked = await times_asked(world, "send_letter")
        frozen.send(signal.SIGCONT)
        assert await frozen.ended() != 0
        assert "taken for dead" in frozen.log
        assert await times_asked(world, "send_letter") == asked == 2
        assert len(letters.sent) == (1 if step == "model" else 0)


async def times_asked(world: World, said: str) -> int:
    """How often the model was asked in a run for these words."""
    return sum(said in request.last_user_text for request in await world.model.completions())
