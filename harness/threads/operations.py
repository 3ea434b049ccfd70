"""Operations on a thread between turns: settle, rewind, compact, history, views; the runner hands them its graph."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.constants import END
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import StateUpdate

from harness.context import HistoryEntry, ThreadView
from harness.graph.calls import effect_key, open_calls, recorded_result
from harness.graph.messages import INTERRUPTED_TURN, MARK, TEXT_LENGTH, answer_text, is_users, users_text
from harness.graph.state import RESEARCH, TODOS, merge_research
from harness.graph.turn import MODEL_NODE
from harness.threads.checkpoints import RUN_KEY, thread_config
from harness.tools.asking import question_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.types import StateSnapshot

    from harness.context import Unfinished
    from harness.graph.state import Graph
    from harness.ports import EffectLog

NOT_FINISHED = "[This turn was interrupted before it was finished. I will not go on with it unless asked to.]"
CUT_OFF = "[My answer was interrupted here; the person has read it so far. I will not go on with it unless asked to.]"


async def settle(
    graph: Graph, effects: EffectLog, thread_id: str, unfinished: Unfinished | None = None, *, node: str = MODEL_NODE
) -> None:
    """Close a turn that was stopped in the middle: finished tools keep their results, finished steps of a research
    their findings, open calls get an honest result. unfinished: what people have read of the message in the making; not
    kept where it belongs to no open turn. node: of the graph, behind which a turn ends."""
    config = thread_config(thread_id)
    state = await graph.aget_state(config)
    if state.tasks:
        is_open = unfinished is not None and _is_open(state, unfinished)
        words = unfinished.text if unfinished is not None and is_open else ""
        await _close(graph, effects, state, config, words, node=node)


def _is_open(state: StateSnapshot, unfinished: Unfinished) -> bool:
    """Whether the message is of the open turn, and not whole in the thread already."""
    own = (state.metadata or {}).get(RUN_KEY) == unfinished.run_id
    return own and all(message.id != unfinished.message_id for message in state.values.get("messages", []))


async def _close(
    graph: Graph,
    effects: EffectLog,
    state: StateSnapshot,
    config: RunnableConfig,
    unfinished: str = "",
    *,
    node: str = MODEL_NODE,
) -> None:
    """A new newest checkpoint with what was open in `state` closed. config: of the thread, at that state. unfinished:
    the assistant's own words that it ends with.

    LangGraph drops the results of parallel tools that had finished when new input comes, so they are written here. One
    note closes the turn: without it the model would take the stopped request up again.
    """
    thread_id = config["configurable"]["thread_id"]
    missing = finished_results(state)
    known = [*state.values.get("messages", []), *missing]
    run_id = str((state.metadata or {}).get(RUN_KEY, ""))
    for message_id, call in open_calls(known):
        missing.append(
            await recorded_result(effects, effect_key(thread_id, run_id, message_id, call["id"] or ""), call)
        )
    note = AIMessage(NOT_FINISHED, additional_kwargs={MARK: INTERRUPTED_TURN})
    if words := unfinished.strip():
        marks = {MARK: INTERRUPTED_TURN, TEXT_LENGTH: len(words)}
        note = AIMessage(f"{words}\n\n{CUT_OFF}", additional_kwargs=marks)
    # As the model's answer without calls: the graph's own edge ends the turn, in the same checkpoint.
    update = {"messages": [*missing, note], **finished_steps(state)}
    await graph.aupdate_state(config, update, as_node=node)


def finished_results(state: StateSnapshot) -> list[AnyMessage]:
    """What tasks of the open step wrote before the others were stopped."""
    results: list[AnyMessage] = []
    for task in state.tasks:
        for result in task.result if isinstance(task.result, list) else [task.result]:
            messages = result.get("messages", []) if isinstance(result, dict) else []
            results += [message for message in messages if isinstance(message, ToolMessage)]
    return results


def finished_steps(state: StateSnapshot) -> dict[str, Any]:
    """What steps of a research wrote that had ended before the others of their wave were stopped."""
    wrote = [task.result[RESEARCH] for task in state.tasks if isinstance(task.result, dict) and RESEARCH in task.result]
    return {RESEARCH: reduce(merge_research, wrote)} if wrote else {}


async def rewind(graph: Graph, effects: EffectLog, thread_id: str, checkpoint_id: str) -> None:
    """A new newest checkpoint with the state of that one; what was open there is closed. Raises LookupError when that
    checkpoint is not kept."""
    config = thread_config(thread_id, checkpoint_id=checkpoint_id)
    state = await graph.aget_state(config)
    if state.metadata is None:  # LangGraph would go back to an empty thread
        raise LookupError(f"checkpoint {checkpoint_id} of thread {thread_id} is not kept")
    if state.tasks:
        await _close(graph, effects, state, config)
    else:
        await graph.aupdate_state(config, None, as_node=END)


async def replace_history(graph: Graph, thread_id: str, messages: list[AnyMessage]) -> None:
    """Put these messages in the place of the thread's history; the thread must be settled."""
    update: dict[str, Any] = {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *messages]}
    await graph.abulk_update_state(thread_config(thread_id), [[_as(update, MODEL_NODE)], [_as(None, END)]])


def _as(values: dict[str, Any] | None, node: str) -> StateUpdate:
    return StateUpdate(values, node)


def entries(messages: list[AnyMessage]) -> list[HistoryEntry]:
    """What persons and the assistant said to each other, also what was cut off; no tool rounds, no summaries, no notes
    of the harness."""
    said: list[HistoryEntry] = []
    for message in messages:
        if is_users(message):
            said.append(HistoryEntry(message_id=message.id or "", role="user", text=users_text(message)))
        elif (question := question_of(message)) is not None:
            said.append(HistoryEntry(message_id=message.id or "", role="assistant", text=question.text))
        elif isinstance(message, AIMessage) and not message.tool_calls:
            noted = MARK in message.additional_kwargs
            text = answer_text(message)[: message.additional_kwargs.get(TEXT_LENGTH, 0) if noted else None]
            if text:
                said.append(HistoryEntry(message_id=message.id or "", role="assistant", text=text))
    return said


def messages_of(said: Sequence[HistoryEntry]) -> list[AnyMessage]:
    """What was said elsewhere, as a thread's messages."""
    return [
        HumanMessage(each.text, id=each.message_id) if each.role == "user" else AIMessage(each.text, id=each.message_id)
        for each in said
    ]


async def views(
    graph: Graph, thread_id: str, *, at: str | None = None, before: str | None = None, limit: int = 1
) -> list[ThreadView]:
    """See harness.ports.Harness.views."""
    if at is not None or (before is None and limit == 1):
        state = await graph.aget_state(thread_config(thread_id, checkpoint_id=at))
        return [] if state.metadata is None else [_view(state)]
    older = None if before is None else thread_config(thread_id, checkpoint_id=before)
    found = graph.aget_state_history(thread_config(thread_id), before=older, limit=limit)
    return [_view(state) async for state in found]


def _view(state: StateSnapshot) -> ThreadView:
    metadata, parent = state.metadata or {}, state.parent_config
    return ThreadView(
        checkpoint_id=_checkpoint_id(state.config) or "",
        parent_id=None if parent is None else _checkpoint_id(parent),
        created_at=state.created_at or "",
        run_id=str(metadata.get(RUN_KEY, "")),
        step=int(metadata.get("step", -1)),
        open=bool(state.next),
        messages=tuple(_told(state.values.get("messages", []))),
        todos=tuple(state.values.get(TODOS, [])),
    )


def _checkpoint_id(config: RunnableConfig) -> str | None:
    return config["configurable"].get("checkpoint_id")


def _told(messages: list[AnyMessage]) -> Iterator[dict[str, Any]]:
    """Messages in the form in which LangChain writes them as JSON, without anything that is for the model alone."""
    for message in messages:
        common: dict[str, Any] = {"id": message.id, "name": None, "additional_kwargs": {}, "response_metadata": {}}
        if is_users(message):
            yield {"type": "human", "content": users_text(message), **common}
        elif isinstance(message, ToolMessage):
            about = {"name": message.name, "tool_call_id": message.tool_call_id, "status": message.status}
            yield {"type": "tool", "content": str(message.text), **common, **about}
        elif isinstance(message, AIMessage):
            noted = MARK in message.additional_kwargs
            text = answer_text(message)[: message.additional_kwargs.get(TEXT_LENGTH, 0) if noted else None]
            if text or message.tool_calls:
                calls = [{**call, "type": "tool_call"} for call in message.tool_calls]
                usage = message.usage_metadata
                yield {"type": "ai", "content": text, **common, "tool_calls": calls, "usage_metadata": usage}
