"""Assembles agents: model, tools, middleware chain, prompt, state, saver; called by agents.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import langsmith
from langchain.agents import create_agent

from harness.graph.signals import RunScope
from harness.graph.state import ThreadState
from harness.middleware import ChainParts, middleware_chain, subagent_chain

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable, Sequence

    from langchain_core.tools import BaseTool
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

    Graph = CompiledStateGraph[Any, RunScope, Any, Any]


async def _without_thread(
    default: object, context: contextvars.Context, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    return context.run(function, *args, **kwargs)


# create_agent wraps each middleware in langsmith's tracing, which enters and leaves a thread and a task around each
# layer even when tracing is off: a quarter of a turn's CPU, and model calls that wait for the thread pool.
langsmith.set_runtime_overrides(aio_to_thread=_without_thread)


def make_lead_agent(
    parts: ChainParts, *, prompt: str, tools: Sequence[BaseTool], saver: BaseCheckpointSaver[Any]
) -> Graph:
    """The compiled graph of the lead agent for one model."""
    return create_agent(
        parts.model,
        tools=list(tools),
        system_prompt=prompt,
        middleware=middleware_chain(parts),
        state_schema=ThreadState,
        context_schema=RunScope,
        checkpointer=saver,
    )


def make_subagent(parts: ChainParts, *, prompt: str, tools: Sequence[BaseTool]) -> Graph:
    """The compiled graph of one kind of subagents for one model. It keeps nothing: a subagent lives for one task."""
    return create_agent(
        parts.model,
        tools=list(tools),
        system_prompt=prompt,
        middleware=subagent_chain(parts),
        state_schema=ThreadState,
        context_schema=RunScope,
    )
