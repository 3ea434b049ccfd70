"""Decides on tool calls: the rules of the settings, the built-in ones, the default; or the operator's own provider.

A shell command is parsed, and each command that it would run is checked separately. A pattern that allows has to match
all of them, as written and as run; what a parser cannot know in advance (a substitution, a variable set for the
command, a file that it writes) is never allowed by a pattern.
"""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import GuardrailSetupError
from harness.guardrails.approvals import PROPOSES, MemoryApprovals
from harness.guardrails.config import GuardrailSettings, fits_anywhere, fits_glob, fits_whole, fits_words
from harness.guardrails.port import MCP, Verdict
from sandbox.base import Isolation
from sandbox.shell.reader import DEEPEST, Unreadable, parsed
from sandbox.shell.script import SHELLS, all_pipelines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from harness.guardrails.approvals import Approvals
    from harness.guardrails.config import RuleSettings
    from harness.guardrails.port import GuardrailProvider, GuardRequest
    from sandbox.shell.reader import Command, Script, Word


SHELL = "bash"
UNREADABLE = "The command cannot be read for sure, so no rule can decide on it."
ON_THE_HOST = "Commands are not isolated on this machine."
DESTRUCTIVE = "Its server says that it may change or delete things."
CHANGES_ITSELF = "It would change what I do in later conversations."
DENIED = "The rules of this gateway do not allow it."
NO_COMMAND = ""

NOWHERE = "/dev/null"
_FUNCTION = re.compile(r"\(\s*\)|(?:^|[\s;&|])function\s")
_PATTERN = re.compile(r"[*?]|\[[^\[]")
_SOURCING = frozenset({"source", ".", "eval", "trap"})
_INPUT = frozenset({"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "-"})
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]|\\\Z")
"""Also a trailing backslash, which the shell keeps and the parser does not."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a command would run. plain: everything is known before it runs. begun: for commands with words known only at
    run time, the words before those."""

    commands: tuple[tuple[str, ...], ...]
    plain: bool
    begun: tuple[tuple[str, ...], ...] = ()


def read(command: str) -> Read | None:
    """Parse a command; None if it cannot be parsed reliably."""
    if _CONTROL.search(command):
        return None
    try:
        script = parsed(command)
        written = [each for pipeline in _written(script) for each in pipeline]
        run = [each for pipeline in all_pipelines(script) for each in pipeline]
    except (Unreadable, RecursionError):
        return None
    commands = tuple(dict.fromkeys(_words(each) for each in (*written, *run) if each.words))
    if not commands:
        return None
    certain = "$" not in command and _FUNCTION.search(command) is None
    begun = {
        () if _takes_any(each) else _known(each)
        for each in run
        if _takes_any(each) or len(_known(each)) < len(each.words)
    }
    return Read(commands, certain and all(map(_is_plain, written)), tuple(begun))


def all_fit(patterns: Sequence[str], found: Read) -> bool:
    """Whether each command that would run matches one of the patterns; decides on allowing."""
    return found.plain and all(_fits(patterns, words) for words in found.commands)


def one_fits(patterns: Sequence[str], found: Read) -> bool:
    """Whether any command that would run matches; decides on denying and asking."""
    return any(_fits(patterns, words) or _fits(patterns, _short(words)) for words in found.commands)


def one_may_fit(patterns: Sequence[str], found: Read | None) -> bool:
    """Whether any command that would run may match, as far as is known in advance; decides on denying and asking."""
    return found is not None and any(_may_fit(pattern.split(), words) for pattern in patterns for words in found.begun)


def _may_fit(wanted: list[str], words: tuple[str, ...]) -> bool:
    if wanted[-1] != "*" and len(words) > len(wanted):
        return False
    return not words or any(all(map(fits_glob, wanted, each)) for each in (words, _short(words)))


def _known(command: Command) -> tuple[str, ...]:
    """The command's words up to the first that is known only when it runs."""
    unknown = (place for place, word in enumerate(command.words) if _is_unknown(word, is_program=place == 0))
    return _words(command)[: next(unknown, None)]


def _is_unknown(word: Word, *, is_program: bool) -> bool:
    return bool(word.inner) or "$" in word.text or (is_program and word.bare and _PATTERN.search(word.text) is not None)


def _takes_any(command: Command) -> bool:
    """Whether it is a shell that runs its input, as after a pipe, or a word known only at run time."""
    if command.name not in SHELLS | _SOURCING:
        return False
    if any(_is_unknown(word, is_program=False) for word in command.words[1:]):
        return True
    if command.name in _SOURCING:
        return any(text in _INPUT for text in command.arguments)
    ends_in_c = re.fullmatch(r"-\w*c", command.arguments[-1]) is not None if command.arguments else False
    return ends_in_c or (all(text in _INPUT for text in command.plain) and not command.given)


def _fits(patterns: Sequence[str], words: tuple[str, ...]) -> bool:
    return any(fits_words(pattern, list(words)) for pattern in patterns)


def _short(words: tuple[str, ...]) -> tuple[str, ...]:
    """The program without its folder."""
    return (words[0].rpartition("/")[2], *words[1:])


def _words(command: Command) -> tuple[str, ...]:
    return tuple(word.text for word in command.words)


def _written(script: Script, depth: int = 0) -> Iterator[list[Command]]:
    if depth > DEEPEST:
        raise Unreadable("it is nested too deeply")
    for pipeline in script.pipelines:
        yield pipeline
        for command in pipeline:
            for word in (*command.words, *command.reads, *command.writes):
                for inner in word.inner:
                    yield from _written(inner, depth + 1)


def _is_plain(command: Command) -> bool:
    if any(word.inner for word in command.words) or command.given:
        return False
    # An assignment before a command is listed among what it reads, without a name of its own.
    return not command.reads and all(word.text == NOWHERE and not word.inner for word in command.writes)


class Rules:
    """GuardrailProvider based on the settings."""

    def __init__(self, settings: GuardrailSettings) -> None:
        self._settings = settings

    async def evaluate(self, request: GuardRequest) -> Verdict:
        return self.decided(request)

    def decided(self, request: GuardRequest) -> Verdict:
        """The verdict. What a rule cannot be sure of becomes "ask", unless a later rule denies it."""
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
    """Asks for commands without isolation, MCP servers' tools that may be destructive, and changes to skills. None: no
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
    """Whether the rule matches apart from the command."""
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
    """The provider that decides on tool calls, and people's decisions. Times in seconds."""

    provider: GuardrailProvider
    approvals: Approvals
    provider_seconds: float
    ask_seconds: float


def load_guardrails(settings: GuardrailSettings | None = None, approvals: Approvals | None = None) -> Guarding:
    """Build the guardrails; imports the operator's module. approvals: None: in memory. Raises GuardrailSetupError,
    whose text names the key."""
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
