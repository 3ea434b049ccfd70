"""assistant.threads.*: status, title and suggested prompts of a thread."""

import time
from typing import Any

from tests.simulators.slack.calls import Call
from tests.simulators.slack.errors import SlackError, invalid_arguments
from tests.simulators.slack.state import Channel, Installation
from tests.simulators.slack.world import World

STATUS_SECONDS = 120.0
MAX_LOADING_MESSAGES = 10
MAX_PROMPTS = 4


def set_status(world: World, install: Installation, call: Call) -> Any:
    """assistant.threads.setStatus: cleared by an empty status, by a reply, and after two minutes."""
    channel, root = _thread(world, install, call)
    if not call.given("status"):
        raise invalid_arguments("missing required field: status")
    loading = call.params.get("loading_messages") or []
    if not isinstance(loading, list) or len(loading) > MAX_LOADING_MESSAGES:
        raise invalid_arguments(f"no more than {MAX_LOADING_MESSAGES} items allowed [json-pointer:/loading_messages]")
    thread = channel.thread(root)
    thread.status, thread.status_at, thread.loading_messages = call.text("status"), world.clock.now(), loading
    thread.statuses.append({"at": time.monotonic(), "status": thread.status})
    channel.touch()
    return {}


def set_title(world: World, install: Installation, call: Call) -> Any:
    """assistant.threads.setTitle"""
    channel, root = _thread(world, install, call)
    channel.thread(root).title = call.required("title")
    channel.touch()
    return {}


def set_prompts(world: World, install: Installation, call: Call) -> Any:
    """assistant.threads.setSuggestedPrompts"""
    channel, root = _thread(world, install, call)
    prompts = call.params.get("prompts")
    if not isinstance(prompts, list) or not 0 < len(prompts) <= MAX_PROMPTS:
        raise invalid_arguments(f"1 to {MAX_PROMPTS} items allowed [json-pointer:/prompts]")
    if not all(isinstance(prompt, dict) and prompt.get("title") and prompt.get("message") for prompt in prompts):
        raise invalid_arguments("missing required field: title")
    channel.thread(root).prompts = prompts
    channel.touch()
    return {}


def _thread(world: World, install: Installation, call: Call) -> tuple[Channel, str]:
    channel = world.channel(install, call.required("channel_id"))
    if install.bot_user_id not in channel.members:
        raise SlackError("channel_not_found")
    root = channel.visible(call.required("thread_ts"))
    if root is None or root.is_reply:
        raise SlackError("invalid_thread_ts")
    return channel, root.ts


METHODS = {
    "assistant.threads.setStatus": set_status,
    "assistant.threads.setSuggestedPrompts": set_prompts,
    "assistant.threads.setTitle": set_title,
}
