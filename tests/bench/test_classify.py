"""The rule that shares a profile out, on stacks as the profiler writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.classify import (
    CHECKPOINTS,
    HARNESS,
    LOOP,
    MODEL,
    OWN,
    PARTS,
    PLATFORM,
    STORE,
    part_of,
    shares,
    waits,
    working_samples,
)

ROOT = Path("/src/antler")
LIBRARIES = "/src/antler/.venv/lib/python3.11/site-packages"
PYTHON = "/usr/lib/python3.11"
MAIN = (
    f"thread (7): MainThread;<module> ({ROOT}/bot/__main__.py);serve ({ROOT}/bot/process/app.py);"
    f"Runner.run ({PYTHON}/asyncio/runners.py);BaseEventLoop._run_once ({PYTHON}/asyncio/base_events.py)"
)
WAITING_WORKER = f"thread (8): store-writer_0;_worker ({PYTHON}/concurrent/futures/thread.py)"


def stack(*frames: str) -> str:
    return ";".join([MAIN, *frames])


@pytest.mark.parametrize(
    ("frames", "part"),
    [
        ([f"Bot._post ({LIBRARIES}/telegram/_bot.py)", f"send ({LIBRARIES}/httpx/_client.py)"], PLATFORM),
        ([f"TelegramApi.call ({ROOT}/channels/telegram/api.py)", f"dumps ({PYTHON}/json/__init__.py)"], PLATFORM),
        ([f"render ({ROOT}/channels/telegram/outbound.py)"], OWN),
        ([f"RunManager.run ({ROOT}/bot/runs/manager.py)", f"loads ({PYTHON}/json/__init__.py)"], OWN),
        ([f"stream ({LIBRARIES}/openai/_streaming.py)", f"decode ({PYTHON}/json/decoder.py)"], MODEL),
        (
            [
                f"_astream ({LIBRARIES}/langchain_openai/chat_models/base.py)",
                f"validate ({LIBRARIES}/pydantic/main.py)",
            ],
            MODEL,
        ),
        ([f"run ({ROOT}/harness/run/runner.py)", f"tick ({LIBRARIES}/langgraph/pregel/_loop.py)"], HARNESS),
        (
            [f"tick ({LIBRARIES}/langgraph/pregel/_loop.py)", f"aput ({LIBRARIES}/langgraph/checkpoint/base.py)"],
            CHECKPOINTS,
        ),
        ([f"run ({ROOT}/bot/store/writer.py)", f"execute ({LIBRARIES}/sqlalchemy/engine/base.py)"], STORE),
        ([f"Handle._run ({PYTHON}/asyncio/events.py)"], LOOP),
    ],
)
def test_the_innermost_frame_of_a_part_decides(frames: list[str], part: str) -> None:
    assert part_of(stack(*frames), ROOT) == part


@pytest.mark.parametrize(
    ("file", "part"),
    [("httpcore2/_async/http11.py", MODEL), ("aiohttp/client_proto.py", LOOP), ("h11/_readers.py", LOOP)],
)
def test_without_a_caller_the_transport_tells_whose_bytes_they_are(file: str, part: str) -> None:
    assert part_of(stack(f"data_received ({LIBRARIES}/{file})"), ROOT) == part


def test_a_caller_wins_over_the_transport() -> None:
    frames = (f"ask ({LIBRARIES}/openai/_base_client.py)", f"write ({LIBRARIES}/aiohttp/http_writer.py)")
    assert part_of(stack(*frames), ROOT) == MODEL


def test_who_waits_does_not_work() -> None:
    assert waits(WAITING_WORKER)
    assert waits(stack(f"EpollSelector.select ({PYTHON}/selectors.py)"))
    assert not waits(stack(f"Handle._run ({PYTHON}/asyncio/events.py)"))


def test_a_thread_counts_by_its_cpu_time_and_not_by_its_samples() -> None:
    profile = [
        f"{stack(f'run ({ROOT}/bot/runs/manager.py)')} 30",
        f"{stack(f'tick ({LIBRARIES}/langgraph/pregel/_loop.py)')} 10",
        f"thread (8): store-writer_0;run ({ROOT}/bot/store/writer.py) 500",
        f"{WAITING_WORKER} 9000",
        "",
    ]
    found = shares(profile, {7: 4.0, 8: 1.0, 9: 0.0}, ROOT)
    assert list(found) == [*PARTS, LOOP]
    assert found[OWN] == pytest.approx(0.6)
    assert found[HARNESS] == pytest.approx(0.2)
    assert found[STORE] == pytest.approx(0.2)
    assert sum(found.values()) == pytest.approx(1)
    assert working_samples(profile) == 540


def test_an_empty_profile_gives_no_shares() -> None:
    assert shares([], {7: 1.0}, ROOT) == {}
    assert shares([f"{WAITING_WORKER} 10"], {8: 1.0}, ROOT) == {}
