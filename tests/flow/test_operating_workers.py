"""Operating workers: one config for all of them, what is known of each, and versions beside one another."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
from typing import TYPE_CHECKING

import httpx
import pytest

from bot.texts.en import EN
from tests.flow.api_world import AGENT, Api, free_port, said
from tests.flow.cluster import Cluster
from tests.flow.gateway import merged
from tests.flow.next_version import prepared
from tests.flow.sandboxed import call
from tests.flow.test_mcp import away, local, remote
from tests.simulators.model.keeper import ASKED
from tests.simulators.model.scripts import Pause, Say
from tests.simulators.telegram.seen import ALICE, TEAM

if TYPE_CHECKING:
    from tests.flow.gateway import World
    from tests.simulators.postgres import PostgresServer

pytestmark = pytest.mark.postgres

WHOLE = "The first half of the answer, and the second half."


@pytest.fixture
def cluster(world: World, postgres: PostgresServer) -> Cluster:
    return Cluster(world, postgres)


def edited(world: World, **changes: object) -> None:
    world.settings = merged(world.settings, changes)
    world.write_config()


async def until_not_ready(probes: httpx.AsyncClient) -> None:
    async with asyncio.timeout(60):
        while True:
            if (await probes.get("/readyz")).status_code == 503:
                return
            await asyncio.sleep(0.2)


async def test_a_changed_config_holds_at_every_worker(cluster: Cluster) -> None:
    world = cluster.world
    world.environment = {"CANARY": "canary-0123456789"}
    async with cluster:
        # A run that is at work goes on as it began.
        await world.model.script("take long", (Pause(name="held"), Say(text="the long answer")), "contains")
        await world.telegram.user_says("take long")
        await world.model.wait_for_pause("held")
        server = {"base_url": world.model.base_url, "api_key": "$MODEL_KEY"}
        edited(world, models=[{"name": "new", "model": "sim-2", **server}], mcp_servers={"local": local()})
        code, told = await world.command("reload")
        assert (code, told.count("\nworker w")) == (0, 2), told
        for name in cluster.workers:
            assert f"worker {name}: now in force: models, mcp_servers" in told or f"worker {name}: in force" in told
        await world.model.release("held")
        await world.telegram.wait_for_text(ALICE, "the long answer")
        await world.telegram.user_says(call("runtime"))
        await world.telegram.wait_for_text(ALICE, "Tool result")
        models = [record.body["model"] for record in await world.model.completions()]
        assert (models[0], models[-1]) == ("sim", "sim-2")
        await cluster.until_told(lambda told: "mcp local: ready" in told)


async def test_a_token_that_a_worker_has_got_is_shown_to_nobody(cluster: Cluster) -> None:
    """Nor may it come in pieces, so the gateway that shows the answer has to know it."""
    world, port = cluster.world, free_port()
    world.settings["mcp_servers"] = {"away": away(port)}
    cluster.count = 1
    async with remote(port), cluster:
        await cluster.until_told(lambda told: "mcp away: ready" in told)
        await world.telegram.user_says("!say it is token-secret-1")
        await world.telegram.wait_for_text(ALICE, "it is [redacted]")
    assert "token-secret-1" not in world.log


@pytest.mark.long
async def test_what_a_worker_cannot_take_over_is_told_and_changes_nothing_there(cluster: Cluster) -> None:
    """One of them does not have the secret that the new config names."""
    world = cluster.world
    async with cluster:
        (world.folder / ".env").write_text(f"NEW_KEY={world.model.api_key}\n")
        elsewhere = world.folder / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "config.yaml").write_text(world.config_file.read_text())
        poor = await cluster.start_worker("poor", elsewhere / "config.yaml")
        server = {"base_url": world.model.base_url, "api_key": "$NEW_KEY"}
        edited(world, models=[{"name": "main", "model": "sim-2", **server}])
        (elsewhere / "config.yaml").write_text(world.config_file.read_text())
        code, told = await world.command("reload")
        assert code == 1, told
        assert "worker poor: the config was not applied, the previous one stays in force" in told
        assert "environment variable NEW_KEY is not set" in told
        assert "worker w1: " in told
        status = await cluster.until_told(lambda told: "config the config was not applied" in told)
        assert "worker poor" in status
        await world.telegram.user_says("still there?")
        await world.telegram.wait_for_text(ALICE, "You said: still there?")
        assert poor.process is not None
        assert poor.process.returncode is None


@pytest.mark.long
async def test_each_worker_is_known_to_operators_and_to_probes(cluster: Cluster) -> None:
    world, port = cluster.world, free_port()
    world.settings = merged(world.settings, {"access": {"admins": [f"telegram:{ALICE.id}"]}})
    cluster.count = 1
    async with cluster:
        second = await cluster.start_worker("probed", ANTLER__WORKERS__LISTEN=f"127.0.0.1:{port}")
        await world.telegram.user_says("!pause half")
        await world.telegram.wait_for_text(ALICE, "The first half")
        status = await cluster.until_told(lambda told: told.count("worker ") == 2 and ", 1 of 200 running" in told)
        assert "worker probed: " in status
        _, told = await world.command("doctor")
        assert re.search(r"worker w1: .*\d running", told), told
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as probes:
            assert [(await probes.get(path)).status_code for path in ("/healthz", "/readyz")] == [200, 200]
            figures = (await probes.get("/metrics")).text
            assert "antler_runs_active" in figures
            assert 'antler_well{name="",part="store"} 1.0' in figures
            assert (await probes.get("/")).status_code == 404
            await asyncio.to_thread(cluster.postgres.stop)
            try:
                await until_not_ready(probes)
                assert (await probes.get("/healthz")).status_code == 200
            finally:
                await asyncio.to_thread(cluster.postgres.start)
        await world.model.release("half")
        await world.telegram.wait_for_text(ALICE, "second half", timeout=60.0)
        await second.kill()
        await cluster.until_told(lambda told: "NOT WELL worker probed" in told or "worker probed" not in told, 60.0)
        await world.telegram.user_says("/status")
        line = EN.status["worker"].partition("{")[0]
        await world.telegram.wait_for_text(ALICE, f"{line}w1 (")


@pytest.mark.long
async def test_what_a_worker_lacks_is_shown(cluster: Cluster) -> None:
    """It has a data folder of its own, in which the files of conversations are not the gateway's, and no sandbox."""
    world = cluster.world
    cluster.count, cluster.environment = 0, {"ANTLER__DATA_DIR": str(world.folder / "elsewhere")}
    async with cluster:
        await cluster.start_worker("apart", ANTLER__SANDBOX__USE="docker", DOCKER_HOST="unix:///nowhere")
        lacks = ("NOT WELL no gateway has ever run on", "NOT WELL sandbox docker: the agent has files but runs no")
        await cluster.until_told(lambda told: all(lack in told for lack in lacks))


async def upgraded(world: World, *, expands: bool) -> None:
    """While a run is at work the next version takes the gateway's place."""
    await world.telegram.user_says("!pause half")
    await world.telegram.wait_for_text(ALICE, "The first half")
    assert await world.end() == 0
    world.program, world.environment = "tests.flow.next_version", prepared(world.folder, expands=expands)
    await world.start()


async def test_workers_go_on_beside_a_gateway_of_the_next_version(cluster: Cluster) -> None:
    world = cluster.world
    async with cluster:
        await upgraded(world, expands=True)
        await world.model.release("half")
        await world.telegram.wait_for_text(ALICE, WHOLE)
        for worker in cluster.workers.values():
            await worker.wait_for_log("upgraded the database (revision 9999); this version continues to use it")
        await cluster.start_worker("late")

        await cluster.start_worker("next", program=world.program)
        await world.telegram.user_says("!pause later")
        await world.model.wait_for_pause("later")
        for name in ("w1", "w2", "late"):
            cluster.workers[name].send(signal.SIGTERM)
            assert await cluster.workers[name].ended() == 0
        await world.model.release("later")
        await world.telegram.wait_idle(ALICE, quiet=3.0)
        answers = [message.text for message in await world.telegram.bot_messages(ALICE)]
        assert answers == [WHOLE, WHOLE]

        assert await world.end() == 0
        world.program = "bot"
        assert await world.ends() == 1
        assert "revision 9999, which is newer than this program" in world.log


@pytest.mark.long
async def test_workers_that_a_next_version_does_not_go_with_end_and_others_go_on(cluster: Cluster) -> None:
    world = cluster.world
    async with cluster:
        await upgraded(world, expands=False)
        for worker in cluster.workers.values():
            assert await worker.ended() != 0
            assert "taken for dead" in worker.log
        cluster.workers.clear()
        with pytest.raises(AssertionError, match="newer than this program"):
            await cluster.start_worker("old")
        cluster.workers.clear()
        await cluster.start_worker("next", program=world.program)
        await world.model.wait_for_request(lambda request: request.id > 1 and request.paused_at == "half")
        await world.model.release("half")
        await world.telegram.wait_for_text(ALICE, WHOLE)
        await world.telegram.wait_idle(ALICE, quiet=3.0)
        assert [message.text for message in await world.telegram.bot_messages(ALICE)] == [WHOLE]


@pytest.mark.long
async def test_two_workers_spend_no_more_than_one_would(cluster: Cluster) -> None:
    world, used_up = cluster.world, EN.budget_of["gateway_day"]
    world.settings["limits"] = {"concurrent_runs": 1}
    async with cluster:
        await world.telegram.user_says("hello")
        await world.telegram.wait_for_text(ALICE, "You said: hello")
        ((first,),) = cluster.rows("SELECT CAST(sum(input_tokens + output_tokens) AS bigint) FROM usage")
        assert isinstance(first, int)
        limit = first * 8
        edited(world, budgets={"gateway_day": {"tokens": limit}})
        code, told = await world.command("reload")
        assert code == 0, told
        plans = [{"todos": [{"content": f"look {number}", "status": "pending"}]} for number in range(20)]
        work = "\n".join(f"!tool write_todos {json.dumps(plan)}" for plan in plans)
        await world.telegram.user_says(work)
        await world.telegram.group_says(f"@antler_bot {work}")
        for chat in (ALICE, TEAM):
            await world.telegram.wait_for_text(chat, used_up)
        assert all("is running here" in worker.log for worker in cluster.workers.values())
        calls = [row[0] for row in cluster.rows("SELECT input_tokens + output_tokens FROM usage ORDER BY id")]
        spent = [sum(map(int, map(str, calls[:number]))) for number in range(len(calls) + 1)]
        beyond = sum(before >= limit for before in spent[:-1])
        assert beyond <= 3, (limit, calls)  # each worker's call under way, and one that sums up


async def test_programs_see_that_a_worker_is_at_a_thread(cluster: Cluster) -> None:
    """Before its history shows it."""
    world, port = cluster.world, free_port()
    world.settings["http"] = {"listen": f"127.0.0.1:{port}"}
    cluster.count = 1
    async with cluster, contextlib.AsyncExitStack() as stack:
        api = Api(world, port, stack)
        await api.ready()
        client = await api.graph()
        thread_id = (await client.threads.create())["thread_id"]
        run = await client.runs.create(thread_id, AGENT, input=said("!pause held"))
        await world.model.wait_for_pause("held")
        assert (await client.threads.get_state(thread_id))["next"] == ["model"]
        await world.model.release("held")
        await client.runs.join(thread_id, run["run_id"])
        assert (await client.threads.get_state(thread_id))["next"] == []


async def until_gone(cluster: Cluster) -> None:
    """Until nothing is kept of runs and calls that have ended."""
    async with asyncio.timeout(30):
        while True:
            if not cluster.rows("SELECT run_id FROM worker_runs") + cluster.rows("SELECT run_id FROM worker_events"):
                assert cluster.rows("SELECT id FROM procrastinate_jobs") == []
                return
            await asyncio.sleep(0.2)


async def test_nothing_is_asked_of_a_model_by_the_gateway(cluster: Cluster) -> None:
    """It has no key that one would take."""
    world, good = cluster.world, cluster.world.model.api_key
    world.settings |= {"memory": {"model": "same", "debounce_seconds": 0}, "title": {"model": "same"}}
    world.environment = {"MODEL_KEY": "bad-key-of-the-gateway"}
    cluster.count, cluster.environment = 1, {"MODEL_KEY": good}
    await world.model.script("Name this conversation", (Say(text="Facts of deer"),), "contains")
    async with cluster:
        for said in ("Remember that deer shed their antlers", "fact 2", "fact 3"):
            await world.telegram.user_says(said)
            await world.telegram.wait_for_text(ALICE, f"You said: {said}")
        await world.wait_for_log("was updated after run(s)")
        await world.telegram.wait_idle(ALICE)
        await world.telegram.user_says("/compact")
        await world.telegram.wait_for_text(ALICE, EN.compact["done"].partition("{")[0].strip())
        await world.telegram.user_says("/memory")
        await world.telegram.wait_for_text(ALICE, "deer shed their antlers")
        assert cluster.rows("SELECT title FROM threads") == [("Facts of deer",)]

        requests = [record for record in await world.model.requests() if record.method == "POST"]
        for asked in ("Name this conversation", ASKED, "Context Extraction Assistant"):
            assert any(asked in str(record.body) for record in requests), asked
        assert {record.headers["authorization"] for record in requests} == {f"Bearer {good}"}
        await until_gone(cluster)
        assert cluster.rows("SELECT count(*) FROM usage") == [(len(requests),)]


@pytest.mark.long
async def test_what_is_scheduled_remembered_and_titled_is_done_once(cluster: Cluster) -> None:
    world = cluster.world
    world.settings |= {"memory": {"debounce_seconds": 0}}
    async with cluster:
        await world.telegram.user_says(
            f"{call('schedule', action='create', text='stretch', in_minutes=0.03)}\n!say noted"
        )
        await world.telegram.wait_for_text(ALICE, "⏰ stretch\n\nYou said: stretch")
        await world.wait_for_log("was updated after run(s)")
        await world.telegram.user_says("/compact")
        await world.telegram.wait_for_text(ALICE, EN.compact["done"].partition("{")[0])
        await world.telegram.wait_idle(ALICE, quiet=5.0)
        said = [message.text for message in await world.telegram.bot_messages(ALICE)]
        assert sum("stretch" in text for text in said) == 1, said
        ((title,),) = cluster.rows("SELECT title FROM threads")
        assert title
        runs = [row[0] for row in cluster.rows("SELECT run_id FROM runs")]
        for run in map(str, runs):
            assert sum(worker.log.count(f"run {run} is running here") for worker in cluster.workers.values()) == 1
        assert not any(
            "bot.memory" in worker.log or "bot.schedule" in worker.log for worker in cluster.workers.values()
        )
