"""The schema of a language: the purpose of each text. Callers fill `{name}` placeholders with str.format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.events import FailureKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """One language. Markdown is allowed everywhere except in status lines, button labels and menu descriptions."""

    # A run in progress: status lines, plain text.
    working: str
    plan_marks: Mapping[str, str]  # keys: TodoStatus
    done: Mapping[str, str]  # {count} {what}; keys: head, times, more, ok, failed
    plan_step: str  # {number} {count} {step}
    tool_labels: Mapping[str, str]  # {what}; keys: names of our tools, skill, other
    # {count} {tasks} {task} {age} {why}; keys: one, many, done, failed, running, waiting, age, waits, and
    tasks: Mapping[str, str]
    retrying: str  # {trouble} {seconds}
    retrying_for: str  # {trouble} {age}
    troubles: Mapping[FailureKind, str]  # temporary ones
    thinking: str  # {line}
    thinking_for: str  # {age}
    standing: str  # {status} {age}
    condensing: str
    resumed: str
    paused: str
    held: str
    no_slot: str  # {limit}

    # A waiting message: status lines.
    queued_next: str
    queued: str  # {place}
    queued_together: str  # {count}
    steering: str
    steered: str
    ordinals: Mapping[str, str]  # {n}; by the last digit, "" for any other

    # How a run ended, with or instead of an answer.
    stopped_by: Mapping[str, str]  # keys: StopReason
    forgotten: str
    not_forgotten: str
    dropped_by: Mapping[str, str]  # keys: author, admin
    timed_out: str  # {duration}
    gave_up: str  # {deaths}
    gave_up_admin: str  # {conversation} {run}
    lost_draft: str
    failures: Mapping[FailureKind, str]  # {model} {wait}
    retry_in: str  # {duration}
    platform_refused: Mapping[str, str]  # Markdown; keys: answer, part, topic, buttons
    partial: str
    cut_short: str
    calls_used_up: str  # {limit}
    looped: str  # {count}
    budget_of: Mapping[str, str]  # noun phrases; keys: bot.usage.budgets.Scope
    budgets: Mapping[str, str]  # {budget} {percent} {duration} {zone}; keys: refused, stopped, warning, resets
    images_not_seen: str  # {model}
    fell_back: str  # {model} {instead_of}
    file_problem: Mapping[str, str]  # {name} {limit}; keys: bot.files.uploads.Problem
    listening: str  # a status line
    voice_problem: Mapping[str, str]  # {limit}; keys: bot.voice.audio.Untranscribed

    file_not_sent: Mapping[str, str]  # {name} {size} {limit}; keys: too_large, too_small, no_files, refused

    # A tool call that needs a person's decision.
    approval_asks: str  # {name} {tool}
    approval_why: str  # {reason}
    approval_reasons: Mapping[str, str]  # of the built-in rules; keys: their English texts
    approval_terms: str  # {coverage} {name} {duration} {hash}
    approval_exact_terms: Mapping[str, str]  # {name} {duration} {hash}; keys: once, admins
    approval_coverage: Mapping[str, str]  # {tool}; keys: call, tool
    approval_awaits_reason: str
    approval_write_why: str
    approval_decided: Mapping[str, str]  # {tool}; keys: bot.store.prompts.Decided
    approval_reason: str  # {reason}
    approval_buttons: Mapping[str, str]  # keys: bot.runs.approval_cards.OPTIONS
    approval_answers: Mapping[str, str]
    approval_over: Mapping[str, str]  # {by}, in plain text; keys: bot.store.prompts.Decided
    approval_by: Mapping[str, str]  # {name}; keys: you, person, admin
    waiting_for_decision: str
    queued_behind_approval: str  # {tool} {about}
    queued_behind_too: str  # {count}
    see_approvals: str
    approval_in_words: str  # {hash}
    approvals_head: str
    approvals_none: str
    approvals_line: str  # {number} {tool} {covered} {whose}
    approvals_whose: Mapping[str, str]  # {person}; keys: all, one
    approvals_more: str  # {count}
    approvals_taken_back: str  # {count}
    button_take_back: str

    # Reminders and tasks: when they are due, and their list.
    reminder: str  # {text}
    reminder_for: str  # {name}
    reminder_late: str  # {time}
    hooked: str  # {name} {line}
    read_by_admins: str
    timezone: Mapping[str, str]
    voice: Mapping[str, str]  # {state}; keys: of /voice; rest is spoken; speaking is a status line
    verbose: Mapping[str, str]  # {state}; keys: shown, changed, unknown, and each level
    reminders_head: str
    reminders_none: str
    reminders_line: str  # {number} {text} {time} {again} {whose}
    reminders_again: str  # {cron}
    reminders_more: str  # {count}
    reminder_answers: Mapping[str, str]  # {text}; keys: cancelled, cancelled_one, not_yours, unknown
    button_cancel_reminder: str  # {text}
    schedule_revoked_admin: str  # {person}

    # Access: what strangers and unknown groups read.
    unknown_sender: str  # {person}
    unclaimed: str
    pairing_code: str  # {code} {life}
    pairing_over: str
    pairing_used: str
    pairing_refused: str
    welcome: str
    started: str  # {abilities}
    abilities: Mapping[str, str]  # lines of `started`; bot/process/agent.py selects them
    about: Mapping[str, str]
    # Plain text; keys: description (500 characters), summary (120), greeting (26), offer (112), button_start, button_help
    claimed: str
    access_revoked: str
    code_refused: str
    code_limit: str
    code_in_group: str
    group_unknown: str

    # Notices to administrators, on accounts and on access.
    outages: Mapping[str, str]  # {name} {detail} {why} {age}; keys: bot.operations.health.Problem
    outages_over: Mapping[str, str]  # {name} {age}; keys: bot.operations.health.Part
    pair_usage: str
    paired: str  # {name} {person}
    pairing_asked_admin: str  # {name} {person} {life}
    requests_many: str
    request_buttons: Mapping[str, str]  # keys: person in, person out, group in, group out
    request_answers: Mapping[str, str]  # {name}; keys: in, out
    request_over: Mapping[str, str]  # {name} {subject} {by}; keys: bot.access.editor.Outcome
    group_asked_admin: str  # {title} {group} {name} {person}
    group_joined_admin: str  # as above
    group_ask: Mapping[str, str]  # {group}; keys: any, listed
    group_allow: str
    group_cancel: str
    group_opened: Mapping[str, str]  # keys: any, listed
    group_cancelled: str
    group_is_open: str
    group_closed: str
    allow_where: str
    access_in_private: str
    access_other_account: str  # {account}
    access_head: str
    access_more: str  # {count}
    access_hint: str
    access_allowed: str  # {subject}
    access_taken: str  # {subject}
    access_state: Mapping[str, str]
    access_problem: Mapping[str, str]  # {subject} {detail}; keys: AccessRefused.kind
    not_yours: str

    # Limits.
    refusals: Mapping[str, str]  # {count} {limit}; keys: Refusal
    too_fast: str  # {limit}
    cannot_read: Mapping[str, str]  # keys: UNREAD
    not_allowed: str

    # Commands.
    command_menu: Mapping[str, str]
    admin_menu: Mapping[str, str]
    help_intro: str
    help_admin: str
    help_line: str  # {command} {description}
    unknown_command: str  # {command}
    did_you_mean: str  # {suggestion}
    see_help: str
    which_thread: str  # {command}
    new_thread: str
    new_thread_titled: str  # {title}
    new_stopped_run: str
    new_dropped: str  # {count}
    dropped_by_new: str
    dropped_by_revoke: str
    stop_nothing: str
    stop_not_yours: str
    retry_nothing: str
    retry_busy: str
    retry_not_yours: str
    retry_not_newest: str
    retry_lost: str
    undo: Mapping[str, str]  # {text}; keys: done, nothing, busy, not_yours, lost
    compact: Mapping[str, str]  # {count} {trouble}; keys: done, nothing, not_now, failed
    threads: Mapping[str, str]  # {number} {title} {date} {messages} {count}
    forgetting: Mapping[str, str]  # {title} {count}; count_*: by bot.forgetting.service.KINDS
    usage: Mapping[str, str]  # {percent} {budget} {spent} {limit} {key}
    queue_nothing: str
    queue_running: str  # {text} {name} {age}
    queue_head: str
    queue_line: str  # {number} {text} {name} {age}
    queue_more: str  # {count}
    queue_arriving: str  # {count}
    queue_hint: str
    queue_cleared: str  # {count}
    queue_none_yours: str
    models: Mapping[str, str]  # {name} {detail} {known}; keys: head, line, current, hint, switched, unknown
    agents: Mapping[str, str]  # as above
    models_thinks: str
    skills: Mapping[str, str]  # {count} {name} {names} {detail} {place}; see bot/commands/skills.py
    research: Mapping[str, str]  # texts of harness/research and of bot/commands/research.py
    offers: Mapping[str, str]  # buttons below a report; keys: harness.research.record.COMPANIONS, "deeper"
    offer_says: Mapping[str, str]  # the message that they send for the person; {report}; keys: as above
    memory: Mapping[str, str]  # {number} {numbers} {text} {date} {count} {words} {agent}
    memory_category: Mapping[str, str]  # keys: harness.memory.model.CATEGORIES
    memory_summary: Mapping[str, str]  # keys: harness.memory.model.SUMMARIES
    knowledge: Mapping[
        str, str
    ]  # {name} {collection} {count} {number} {names} {problem}; see bot/commands/knowledge.py
    knowledge_problem: Mapping[str, str]  # {detail}; keys: problems of Unreadable (bot/knowledge), and other
    whoami: str  # {person} {conversation} {chat}
    whoami_group: str  # {chat}
    sign_in: Mapping[str, str]  # keys: link, private, off, here; {link} {life}
    goes_on_below: str
    takes_a_while: str
    button_expired: str
    button_run_now: str
    button_drop: str
    button_retry: str
    pressed: Mapping[str, str]  # {answer}; keys: now, drop, retry, over, decided, begun, not_yours, not_yours_to_stop
    status: Mapping[str, str]
    why: Mapping[str, str]
    sandbox_state: Mapping[str, str]  # keys: bot.files.sandboxes.State
    server_state: Mapping[str, str]  # of MCP servers; keys: harness.mcp.pool.State

    # `antler init`, plain text for a terminal; see bot/setup/.
    setup: Mapping[str, str]
    setup_guides: Mapping[str, str]  # by platform: how to get its credentials
    setup_labels: Mapping[str, str]  # by "platform.key": the name of a credential

    # Units.
    second: str  # {n}
    minute: str
    hour: str
    day: str

    def ordinal(self, n: int) -> str:
        """A position in a queue: 2nd, 3rd."""
        digit = "" if n % 100 in (11, 12, 13) else str(n % 10)
        return self.ordinals.get(digit, self.ordinals[""]).format(n=n)

    def duration(self, seconds: float) -> str:
        """A duration in the largest suitable unit: 45 s, 3 min, 2 h, 4 d."""
        for limit, size, unit in ((90, 1, self.second), (5400, 60, self.minute), (172_800, 3600, self.hour)):
            if seconds < limit:
                return unit.format(n=max(0, round(seconds / size)))
        return self.day.format(n=round(seconds / 86_400))

    def age(self, seconds: float) -> str:
        """A duration that is still growing, exact to the second for the first hour."""
        minutes, rest = divmod(round(seconds), 60)
        if not 0 < minutes < 60:
            return self.duration(seconds)
        return f"{self.minute.format(n=minutes)} {self.second.format(n=rest)}"
