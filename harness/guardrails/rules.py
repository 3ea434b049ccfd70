"""What decides on tool calls: the rules of the settings, the built-in ones, the default; or the operator's own
provider."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import GuardrailSetupError
from harness.guardrails.approvals import PROPOSES, MemoryApprovals
from harness.guardrails.commands import all_fit, one_fits, one_may_fit, read
from harness.guardrails.config import GuardrailSettings
from harness.guardrails.patterns import fits_anywhere, fits_glob, fits_whole
from harness.guardrails.port import MCP, Verdict
from sandbox.base import Isolation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from harness.guardrails.approvals import Approvals
    from harness.guardrails.commands import Read
    from harness.guardrails.config import RuleSettings
    from harness.guardrails.port import GuardrailProvider, GuardRequest

SHELL = "bash"
UNREADABLE = "The command cannot be read for sure, so no rule can decide on it."
ON_THE_HOST = "Commands are not isolated on this machine."
DESTRUCTIVE = "Its server says that it may change or delete things."
CHANGES_ITSELF = "It would change what I do in later conversations."
DENIED = "The rules of this gateway do not allow it."
NO_COMMAND = ""


class Rules:
    """GuardrailProvider by the settings."""

    def __init__(self, settings: GuardrailSettings) -> None:
        self._settings = settings

    async def evaluate(self, request: GuardRequest) -> Verdict:
        return self.decided(request)

    def decided(self, request: GuardRequest) -> Verdict:
        """What a rule cannot be sure of is asked, unless a later one denies it."""
        command = request.args.get("command", NO_COMMAND) if request.tool == SHELL else NO_COMMAND
        found = read(command) if isinstance(command, str) and self._reads_commands else None
        unsure = False
        for rule in self._settings.rules:
            if not _fits_otherwise(rule, request):
                continue
            if rule.command and found is None:
                unsure = True
            elif not rule.command or _fits_command(rule, found):
                return _sure(Verdict(rule.decision, rule.reason), unsure)
            elif rule.decision != "allow" and one_may_fit(rule.command, found):
                unsure = True
        verdict = built_in(request) if self._settings.builtin else None
        return _sure(verdict or Verdict(self._settings.default), unsure)

    @property
    def _reads_commands(self) -> bool:
        return any(rule.command for rule in self._settings.rules)


def built_in(request: GuardRequest) -> Verdict | None:
    """Commands that nothing holds are asked for, servers' tools that may do harm, and changes of skills. None: no
    opinion."""
    if request.metadata.get(PROPOSES):
        return Verdict("ask", CHANGES_ITSELF)
    if request.tool == SHELL and request.isolation == Isolation.NONE:
        return Verdict("ask", ON_THE_HOST)
    about = request.metadata.get(MCP)
    if isinstance(about, dict) and about.get("destructive", True):
        return Verdict("ask", DESTRUCTIVE)
    return None


def _sure(verdict: Verdict, unsure: bool) -> Verdict:
    if unsure and verdict.decision == "allow":
        return Verdict("ask", UNREADABLE)
    return Verdict("deny", verdict.reason or DENIED) if verdict.decision == "deny" else verdict


def _fits_otherwise(rule: RuleSettings, request: GuardRequest) -> bool:
    """All of it but the command."""
    if rule.speaker is not None and (rule.speaker == "admin") != request.speaker.is_admin:
        return False
    if rule.place is not None and (rule.place == "group") != request.is_group:
        return False
    return fits_glob(rule.tool, request.tool) and _fit_arguments(rule, request.args)


def _fit_arguments(rule: RuleSettings, args: Mapping[str, Any]) -> bool:
    fits = fits_whole if rule.decision == "allow" else fits_anywhere
    return all(name in args and fits(expression, _text(args[name])) for name, expression in rule.arguments.items())


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _fits_command(rule: RuleSettings, found: Read | None) -> bool:
    if found is None:
        return False
    return all_fit(rule.command, found) if rule.decision == "allow" else one_fits(rule.command, found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarding:
    """What decides on tool calls, and what persons decided. Times in seconds."""

    provider: GuardrailProvider
    approvals: Approvals
    provider_seconds: float
    ask_seconds: float


def load_guardrails(settings: GuardrailSettings | None = None, approvals: Approvals | None = None) -> Guarding:
    """Imports the operator's module. approvals: None: in memory. Raises GuardrailSetupError, whose text names the
    key."""
    settings = settings or GuardrailSettings()
    return Guarding(
        provider=_loaded(settings.use) if settings.use else Rules(settings),
        approvals=approvals if approvals is not None else MemoryApprovals(),
        provider_seconds=settings.provider_seconds,
        ask_seconds=settings.ask_seconds,
    )


def _loaded(use: str) -> GuardrailProvider:
    module_name, _, name = use.partition(":")
    try:
        made = getattr(importlib.import_module(module_name), name)()
    except ImportError as error:
        raise GuardrailSetupError(f"guardrails.use: {module_name} cannot be imported: {error}") from error
    except AttributeError as error:
        raise GuardrailSetupError(f"guardrails.use: {module_name} has no {name}") from error
    except Exception as error:  # the operator's own code
        raise GuardrailSetupError(f"guardrails.use: {use}() failed: {type(error).__name__}: {error}") from error
    if not callable(getattr(made, "evaluate", None)):
        raise GuardrailSetupError(f"guardrails.use: {use} has no method evaluate(request)")
    provider: GuardrailProvider = made
    return provider
