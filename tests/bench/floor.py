"""`python -m tests.bench.floor MODEL_URL KEY TELEGRAM_ROOT TOKEN TURNS`: the cost of the libraries alone, as JSON.

A child process of scenario `floor`: CPU per turn of the bare libraries against the same simulators, without the
gateway's code. Lower figures are only possible without one of the libraries. Concurrent turns are cheaper than
sequential ones, because data that arrives together is read together: so each has its own floor.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai
import telegram
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from telegram.request import HTTPXRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

AT_ONCE = 50
ALONE = 40
PAUSE = 0.3
QUESTION = "!tokens 20 10"
CHAT = 1001

Found = dict[str, Any]


async def cpu_ms(once: Callable[[], Awaitable[Any]], times: int) -> float:
    """CPU per call, with AT_ONCE concurrent calls, after a warm-up round."""
    await asyncio.gather(*(once() for _ in range(AT_ONCE)))
    rounds = max(1, times // AT_ONCE)
    began = time.process_time()
    for _ in range(rounds):
        await asyncio.gather(*(once() for _ in range(AT_ONCE)))
    return (time.process_time() - began) * 1000 / (rounds * AT_ONCE)


async def alone(once: Callable[[], Awaitable[Any]]) -> tuple[float, list[float]]:
    """CPU per call, one after the other with the pauses of a person, and the start of each (monotonic)."""
    spent, began = 0.0, []
    for _ in range(ALONE):
        await asyncio.sleep(PAUSE)
        before = time.process_time()
        began.append(time.monotonic())
        await once()
        spent += time.process_time() - before
    return spent * 1000 / ALONE, began


async def model_floors(base_url: str, key: str, times: int) -> Found:
    """Measure a streamed answer of 20 tokens through the SDK, through ChatOpenAI, and in a graph of one node."""
    client = openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0)
    chat = ChatOpenAI(model="sim", base_url=base_url, api_key=lambda: key, max_retries=0, stream_usage=True)

    async def sdk() -> None:
        question: Any = [{"role": "user", "content": QUESTION}]
        async for _ in await client.chat.completions.create(model="sim", messages=question, stream=True):
            pass

    async def chat_openai() -> None:
        async for _ in chat.astream(QUESTION):
            pass

    found: Found = {"openai_sdk_stream": await cpu_ms(sdk, times)}
    found["chat_openai_stream"] = await cpu_ms(chat_openai, times)
    turn = _turn(chat, None)
    found["langgraph_turn"] = await cpu_ms(turn, times)
    found["langgraph_turn_alone"], found["alone_began"] = await alone(turn)
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncSqliteSaver.from_conn_string(str(Path(folder) / "checkpoints.db")) as saver:
            found["langgraph_turn_sqlite"] = await cpu_ms(_turn(chat, saver), times)
    return found


def _turn(chat: ChatOpenAI, saver: AsyncSqliteSaver | None) -> Callable[[], Awaitable[None]]:
    """A turn of a graph with the model as its only node, its tokens streamed; each in its own thread."""

    async def model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await chat.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_edge(START, "model")
    builder.add_edge("model", END)
    graph = builder.compile(checkpointer=saver)
    threads = itertools.count()

    async def turn() -> None:
        durability: Any = {} if saver is None else {"durability": "sync"}
        start: Any = {"messages": [HumanMessage(QUESTION)]}
        config: Any = {"configurable": {"thread_id": str(next(threads))}}
        async for _ in graph.astream(start, config, stream_mode="messages", **durability):
            pass

    return turn


async def platform_floors(root: str, token: str, times: int) -> Found:
    """Measure one message sent through the platform's SDK."""
    request = HTTPXRequest(connection_pool_size=64)
    async with telegram.Bot(token, base_url=f"{root}/bot", request=request) as bot:

        async def call() -> None:
            await bot.send_message(CHAT, "Working")

        many = await cpu_ms(call, times)
        one, _ = await alone(call)
        return {"telegram_call": many, "telegram_call_alone": one}


async def main(base_url: str, key: str, root: str, token: str, turns: str) -> None:
    found = await model_floors(base_url, key, int(turns)) | await platform_floors(root, token, int(turns))
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
