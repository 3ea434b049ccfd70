"""From the settings to what decides: the rules, or the operator's own provider; called by runner.py at the start."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import GuardrailSetupError
from harness.guardrails.approvals import MemoryApprovals
from harness.guardrails.config import GuardrailSettings
from harness.guardrails.rules import Rules

if TYPE_CHECKING:
    from harness.guardrails.approvals import Approvals
    from harness.guardrails.port import GuardrailProvider


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
