"""Operations on a thread between turns: settle, rewind, change, copy, compact, history, views."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.constants import END
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import StateUpdate

from harness.context import HistoryEntry, ThreadView
from harness.errors import ThreadTooLarge, UnfitChange
from harness.events import FailureKind
from harness.graph.calls import effect_key, open_calls, recorded_result
from harness.graph.messages import (
    INTERRUPTED_TURN,
    MARK,
    TEXT_LENGTH,
    answer_text,
    is_users,
    round_of,
    users_text,
    without_images,
)
from harness.graph.state import PROMOTED, RESEARCH, RUN_KEY, TODOS, merge_research, reduce_messages, thread_config
from harness.graph.turn import MODEL_NODE
from harness.memory.telling import TOLD
from harness.tools.asking import question_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.types import StateSnapshot

    from harness.context import Removal, Unfinished
    from harness.graph.state import Graph
    from harness.ports import EffectLog

NOT_FINISHED = "[This turn was interrupted before it was finished. I will not go on with it unless asked to.]"
REFUSED = "[This was left out: the provider's content filter refused it.]"
MOST_MESSAGES, MOST_CHARACTERS = 5_000, 2_000_000
"""Limits of a thread that is written to. One that runs have made larger stays as it is."""
CUT_OFF = "[My answer was interrupted here; the person has read it so far. I will not go on with it unless asked to.]"


@dataclass(frozen=True, slots=True)
class ForkEnd:
    """Where a fork ends: before the person's message `before`, after the run `through`, else at the end."""

    before: str = ""
    through: str = ""

    def place(self, messages: Sequence[AnyMessage]) -> int | None:
        """The number of messages before it; None: it is no longer among them."""
        if not self.before and not self.through:
            return len(messages)
        if self.before:
            return next((place for place, each in enumerate(messages) if each.id == self.before), None)
        own = [place for place, each in enumerate(messages) if _is_of(self.through, each)]
        if not own:
            return None
        # What follows up to a person's next message belongs to it: tool results, a note that it was cut off.
        behind = range(own[-1] + 1, len(messages))
        return next((place for place in behind if isinstance(messages[place], HumanMessage)), len(messages))


def _is_of(run_id: str, message: AnyMessage) -> bool:
    return isinstance(message, AIMessage) and round_of(run_id, message) > 0


async def settle(
    graph: Graph,
    effects: EffectLog,
    thread_id: str,
    unfinished: Unfinished | None = None,
    *,
    node: str = MODEL_NODE,
    refused: FailureKind | None = None,
) -> None:
    """Close a turn that was stopped in the middle: finished tools keep their results, finished research steps their
    findings, open calls get an honest result. unfinished: the part of an unfinished message that people have read;
    dropped if it belongs to no open turn. node: the graph's node after which a turn ends. refused: why the provider
    refused the newest request."""
    config = thread_config(thread_id)
    state = await graph.aget_state(config)
    if state.tasks:
        is_open = unfinished is not None and _is_open(state, unfinished)
        words = unfinished.text if unfinished is not None and is_open else ""
        await _close(graph, effects, state, config, words, node=node, refused=refused)


def _is_open(state: StateSnapshot, unfinished: Unfinished) -> bool:
    """Whether the message belongs to the open turn, and is not already complete in the thread."""
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
    refused: FailureKind | None = None,
) -> None:
    """Write a new newest checkpoint with everything open in `state` closed. config: of the thread, at that state.
    unfinished: the assistant's own words to end it with.

    LangGraph drops the results of finished parallel tools when new input arrives, so they are written here. A note
    closes the turn: without it the model would resume the stopped request.
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
    # As a model's answer without calls: the graph's own edge ends the turn, in the same checkpoint.
    changed = _acceptable(known, refused) if refused is not None else ()
    update = {"messages": [*changed, *missing, note], **finished_steps(state)}
    await graph.aupdate_state(config, update, as_node=node)


def _acceptable(messages: Sequence[AnyMessage], refused: FailureKind) -> Iterator[AnyMessage]:
    """The messages that no model has read yet, without what may have led to the refusal: in the thread it would lead to
    the next ones too."""
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            return
        if refused is not FailureKind.CONTENT_FILTER:
            yield without_images(message)
        elif isinstance(message, ToolMessage) or is_users(message):
            facts = {name: fact for name, fact in message.additional_kwargs.items() if name != TEXT_LENGTH}
            yield message.model_copy(update={"content": REFUSED, "additional_kwargs": facts})


def finished_results(state: StateSnapshot) -> list[AnyMessage]:
    """Tool results that tasks of the open step wrote before the others were stopped."""
    results: list[AnyMessage] = []
    for task in state.tasks:
        for result in task.result if isinstance(task.result, list) else [task.result]:
            messages = result.get("messages", []) if isinstance(result, dict) else []
            results += [message for message in messages if isinstance(message, ToolMessage)]
    return results


def finished_steps(state: StateSnapshot) -> dict[str, Any]:
    """The writes of research steps that ended before the others of their wave were stopped."""
    wrote = [task.result[RESEARCH] for task in state.tasks if isinstance(task.result, dict) and RESEARCH in task.result]
    return {RESEARCH: reduce(merge_research, wrote)} if wrote else {}


async def rewind(graph: Graph, effects: EffectLog, thread_id: str, checkpoint_id: str) -> None:
    """Write a new newest checkpoint with the state of that one; anything open there is closed. Raises LookupError if
    that checkpoint is not kept."""
    config = thread_config(thread_id, checkpoint_id=checkpoint_id)
    state = await graph.aget_state(config)
    if state.metadata is None:  # LangGraph would return an empty thread
        raise LookupError(f"checkpoint {checkpoint_id} of thread {thread_id} is not kept")
    if state.tasks:
        await _close(graph, effects, state, config)
    else:
        await graph.aupdate_state(config, None, as_node=END)


async def fork(
    graph: Graph, effects: EffectLog, thread_id: str, fork_id: str, end: ForkEnd, checkpoint_id: str | None = None
) -> bool:
    """Begin the thread `fork_id` with another one's contents up to there; see harness.ports.Harness.fork."""
    state = await graph.aget_state(thread_config(thread_id))
    messages: list[AnyMessage] = state.values.get("messages", [])
    place = end.place(messages)
    if place is None and checkpoint_id is not None:
        then = thread_config(thread_id, checkpoint_id=checkpoint_id)
        state = await graph.aget_state(then)
        # Checked again: it may have been dropped, with its ancestors, while it was read.
        if (await graph.aget_state(then)).metadata is not None:
            messages = state.values.get("messages", [])
            place = len(messages)
    if place is None:
        return False
    kept = messages[:place]
    if place == len(messages):
        kept += finished_results(state)
    for message_id, call in open_calls(kept):
        key = effect_key(thread_id, message_id.rpartition("-")[0], message_id, call["id"] or "")
        kept.append(await recorded_result(effects, key, call))
    # The plan and the record of the memory block belong to the thread's end only.
    of_end = (TODOS, TOLD) if place == len(messages) else ()
    taken = {name: state.values[name] for name in (PROMOTED, *of_end) if state.values.get(name)}
    if kept:
        update: dict[str, Any] = {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *kept], **taken}
        await graph.abulk_update_state(thread_config(fork_id), [[_as(update, MODEL_NODE)], [_as(None, END)]])
    return True


async def replace_history(graph: Graph, thread_id: str, messages: list[AnyMessage]) -> None:
    """Replace the thread's history by these messages; the thread must be settled."""
    await _put(graph, thread_id, {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *messages]})


async def _put(graph: Graph, thread_id: str, update: dict[str, Any]) -> None:
    """Write to a settled thread, which is settled afterwards too."""
    await graph.abulk_update_state(thread_config(thread_id), [[_as(update, MODEL_NODE)], [_as(None, END)]])


async def change(
    graph: Graph, effects: EffectLog, thread_id: str, changes: Sequence[HistoryEntry | Removal], at: str | None
) -> None:
    """See harness.ports.Harness.change."""
    if at is None:
        await settle(graph, effects, thread_id)
    state = await graph.aget_state(thread_config(thread_id, checkpoint_id=at))
    if at is not None and state.metadata is None:
        raise LookupError(f"checkpoint {at} of thread {thread_id} is not kept")
    if state.tasks:
        raise UnfitChange("this checkpoint is in the middle of a turn: choose one whose `next` is empty")
    known: list[AnyMessage] = state.values.get("messages", [])
    writes = _writes(known, changes)
    changed = reduce_messages(known, writes)
    _check_size(known, changed)
    if _unpaired(changed) - _unpaired(known):
        raise UnfitChange("a message with tool calls and their results must be kept or removed together")
    if at is not None:
        await rewind(graph, effects, thread_id, at)
    await _put(graph, thread_id, {"messages": writes})


def _check_size(known: Sequence[AnyMessage], changed: Sequence[AnyMessage]) -> None:
    """Raise ThreadTooLarge if the change exceeds the limits."""
    if len(changed) > max(MOST_MESSAGES, len(known)):
        raise ThreadTooLarge(f"a thread holds at most {MOST_MESSAGES} messages")
    if (size := _characters(changed)) > MOST_CHARACTERS and size > _characters(known):
        raise ThreadTooLarge(f"a thread holds at most {MOST_CHARACTERS} characters")


def _characters(messages: Sequence[AnyMessage]) -> int:
    return sum(len(message.text) for message in messages)


def _writes(known: Sequence[AnyMessage], changes: Sequence[HistoryEntry | Removal]) -> list[AnyMessage | RemoveMessage]:
    """The input for the state's reducer. Raises UnfitChange for a removal of a message that does not exist."""
    ids = {message.id for message in known}
    writes: list[AnyMessage | RemoveMessage] = []
    for each in changes:
        if isinstance(each, HistoryEntry):
            writes += messages_of([each])
            ids.add(each.message_id)
        elif each.message_id is None:
            writes.append(RemoveMessage(REMOVE_ALL_MESSAGES))
            ids.clear()
        elif each.message_id in ids:
            writes.append(RemoveMessage(each.message_id))
            ids.remove(each.message_id)
        else:
            raise UnfitChange(f"no message has the id {each.message_id!r}")
    return writes


def _unpaired(messages: Sequence[AnyMessage]) -> set[str | None]:
    """Ids of calls without a result and of results without a call; providers reject both."""
    calls = {call["id"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls}
    return calls ^ {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}


def _as(values: dict[str, Any] | None, node: str) -> StateUpdate:
    return StateUpdate(values, node)


def entries(messages: list[AnyMessage]) -> list[HistoryEntry]:
    """The messages of people and the assistant, including interrupted ones; no tool rounds, no summaries, no notes of
    the harness."""
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
    """Messages from elsewhere, as a thread's messages."""
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
    """Messages in LangChain's JSON form, without anything that is only for the model."""
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
