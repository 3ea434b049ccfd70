"""The shape of a language: what each sentence is for. `{name}` marks are filled with str.format by the caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.events import FailureKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """One language. Markdown is allowed everywhere except in status lines, button labels and menu descriptions."""

    # A run as it goes on: status lines, plain text.
    working: str
    tool_running: str  # {tool} {summary}
    retrying: str  # {seconds}
    resumed: str
    paused: str

    # How a run ended, beside or instead of an answer.
    stopped: str
    stopped_by_new: str
    timed_out: str  # {duration}
    gave_up: str  # {attempts}
    gave_up_admin: str  # {conversation} {run}
    lost_draft: str
    failures: Mapping[FailureKind, str]  # {model} {wait}
    retry_in: str  # {duration}
    partial: str
    limited: str
    images_not_seen: str  # {model}
    file_problem: Mapping[str, str]  # {name} {limit}; keys: too_large, too_large_there, gone, quota, failed

    # Access and limits.
    unknown_sender: str  # {person}
    queue_full: str  # {count} {limit}
    too_fast: str
    not_allowed: str

    # Commands.
    command_menu: Mapping[str, str]
    help_intro: str
    help_line: str  # {command} {description}
    unknown_command: str  # {command}
    did_you_mean: str  # {suggestion}
    see_help: str
    new_thread: str
    new_thread_titled: str  # {title}
    new_stopped_run: str
    new_dropped: str  # {count}
    dropped_by_new: str
    stop_nothing: str
    stop_not_yours: str
    models_head: str
    models_line: str  # {name} {detail}
    models_current: str
    models_hint: str
    model_switched: str  # {model}
    model_unknown: str  # {name} {known}
    memory_not_yet: str
    whoami: str  # {person} {conversation} {chat}
    whoami_group: str  # {chat}
    button_expired: str
    status: Mapping[str, str]

    # Units.
    second: str  # {n}
    minute: str
    hour: str
    day: str

    def duration(self, seconds: float) -> str:
        """A length of time in the largest unit that says enough: 45 s, 3 min, 2 h, 4 d."""
        for limit, size, unit in ((90, 1, self.second), (5400, 60, self.minute), (172_800, 3600, self.hour)):
            if seconds < limit:
                return unit.format(n=max(0, round(seconds / size)))
        return self.day.format(n=round(seconds / 86_400))
