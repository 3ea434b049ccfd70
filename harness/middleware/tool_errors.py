"""ToolErrorHandling: an exception of a tool becomes a result that says what failed and what to try."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import ToolException
from langgraph.errors import GraphBubbleUp

from harness.text.frames import neutral
from harness.text.plain import clean_text
from sandbox.base import SandboxError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ToolCallRequest
    from langgraph.types import Command

log = logging.getLogger(__name__)

NO_SANDBOX = (
    "The sandbox does not work now: {text}. {hint}Commands and files are not to be had until then; do not try again in "
    "this turn. Tell the person, and answer as well as you can without."
)
TIMED_OUT = "{tool} took too long and was given up. Try something smaller, or try once more later."
DEFECT = (
    "{tool} failed because of a defect in it ({kind}), not because of you; whether a part of it happened is not known. "
    "Look at the state of things, then try another way. If there is none, tell the person."
)


class ToolErrorHandling(AgentMiddleware[Any, Any, Any]):
    """Cancellation and LangGraph's control flow (GraphInterrupt is an Exception) pass through.

    Only errors that are made for the model (ToolException, SandboxError) are quoted: any other's text may hold a path
    of this machine or a secret, so it goes to the log alone.
    """

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        try:
            return await handler(request)
        except GraphBubbleUp:
            raise
        except Exception as error:  # tools of any origin raise anything
            call = request.tool_call
            text = neutral(clean_text(_explained(call["name"], error)))
            return ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"], status="error")


def _explained(tool: str, error: Exception) -> str:
    match error:
        case SandboxError():
            log.error("the sandbox does not work: %s %s", error, error.hint)
            hint = (
                f"An operator can help: {error.hint.rstrip('.')}. " if error.hint else "An operator has to look at it. "
            )
            return NO_SANDBOX.format(text=str(error).rstrip("."), hint=hint)
        case ToolException():
            # Its text is for the model: it may name a file of the person's, or what was looked for in it.
            log.info("%s failed: %s", tool, type(error).__name__)
            return f"{tool} failed: {error}"
        case TimeoutError():
            log.warning("%s took too long", tool)
            return TIMED_OUT.format(tool=tool)
        case _:
            log.error("the tool %s failed for an unexpected reason", tool, exc_info=error)
            return DEFECT.format(tool=tool, kind=type(error).__name__)
