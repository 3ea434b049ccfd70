"""A thread's state: the graph's state schema and its message reducer; shared by all graphs.

LangGraph's own reducer for delta channels ignores REMOVE_ALL, and `add_messages` is not batching-invariant, so this
reducer is ours (langgraph.channels.delta.DeltaChannel: a reducer gets the state and a batch of writes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NotRequired, Required

from langchain.agents import AgentState
from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage
from langchain_core.messages.utils import convert_to_messages
from langgraph.channels import DeltaChannel
from langgraph.graph.message import REMOVE_ALL_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import DeltaChannelHistory
    from langgraph.graph.state import CompiledStateGraph

    from harness.graph.signals import RunScope

    Graph = CompiledStateGraph[Any, RunScope, Any, Any]

SNAPSHOT_EVERY = 20
"""Message updates between two full copies: bounds what a read has to replay (about ten turns)."""

RUN_KEY = "antler_run"
"""Key of a checkpoint's metadata: the run that made it."""

PROMOTED = "promoted"
"""Channel of the tools that a thread has found with tool_search."""
MOST_PROMOTED = 100

STEERED = "steered"
"""Channel of the ids of messages that arrived during a run and joined it; of the newest run that has any."""

TODOS = "todos"
"""Channel of the plan."""

RESEARCH = "research"
"""Channel of the thread's newest research (harness/research/record.py)."""


def reduce_messages(state: Sequence[AnyMessage], writes: Sequence[Any]) -> list[AnyMessage]:
    """Append, replace by id, remove by id; REMOVE_ALL clears; removing an unknown id does nothing.

    Each write is a message or a list of them. One pass, so applying two batches equals applying their concatenation.
    """
    kept: list[AnyMessage | None] = list(state)
    places = {message.id: place for place, message in enumerate(state) if message.id is not None}
    for message in _flat(writes):
        if isinstance(message, RemoveMessage):
            if message.id == REMOVE_ALL_MESSAGES:
                kept.clear()
                places.clear()
            elif message.id in places:
                kept[places.pop(message.id)] = None
        elif message.id in places:
            kept[places[message.id]] = message
        else:
            if message.id is not None:
                places[message.id] = len(kept)
            kept.append(message)
    return [message for message in kept if message is not None]


def replayed(history: DeltaChannelHistory) -> list[AnyMessage]:
    """The messages at a checkpoint that has no copy of its own, replayed from its ancestors."""
    channel = DeltaChannel(reduce_messages, list).from_checkpoint(history.get("seed", []))
    channel.replay_writes(history["writes"])
    return list(channel.get())


def _flat(writes: Sequence[Any]) -> Iterator[Any]:
    for write in writes:
        for item in write if isinstance(write, list) else [write]:
            yield item if isinstance(item, BaseMessage) else convert_to_messages([item])[0]


def reduce_promoted(state: Sequence[str], found: Sequence[str]) -> list[str]:
    """Names in the order in which they were last found, without duplicates; the newest MOST_PROMOTED. Associative."""
    newest = dict.fromkeys(reversed([*state, *found]))
    return list(newest)[:MOST_PROMOTED][::-1]


def newest_plan(state: Sequence[dict[str, str]], written: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """The plan that was written last, also if two were written concurrently."""
    return list(written)


def merge_research(state: dict[str, Any], write: dict[str, Any]) -> dict[str, Any]:
    """Merge the write of a step into the record of a research: keys replace, findings are appended. A record with
    another id replaces the whole. Associative, since an id that was replaced never reappears."""
    if state.get("id") != write.get("id"):
        return dict(write)
    findings = {**state.get("findings", {}), **write.get("findings", {})}
    return {**state, **write, **({"findings": findings} if findings else {})}


class ThreadState(AgentState[Any]):
    """The state of one thread. Outside of messages only JSON types: others come back from a checkpoint as dicts."""

    messages: Required[Annotated[list[AnyMessage], DeltaChannel(reduce_messages, snapshot_frequency=SNAPSHOT_EVERY)]]
    promoted: NotRequired[Annotated[list[str], reduce_promoted]]
    todos: NotRequired[Annotated[list[dict[str, str]], newest_plan]]
    told_memory: NotRequired[dict[str, Any]]
    steered: NotRequired[list[str]]
    research: NotRequired[Annotated[dict[str, Any], merge_research]]


def thread_config(thread_id: str, *, run_id: str | None = None, checkpoint_id: str | None = None) -> RunnableConfig:
    """The config that addresses a thread (at one checkpoint); run_id is recorded in each new checkpoint's metadata.

    The key must not be `run_id`: LangGraph treats an equal `run_id` as a reconnect and ignores the input.
    """
    configurable: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": ""}
    if checkpoint_id is not None:
        configurable["checkpoint_id"] = checkpoint_id
    config: RunnableConfig = {"configurable": configurable, "recursion_limit": 1_000_000}
    if run_id is not None:
        config["metadata"] = {RUN_KEY: run_id}
    return config
