"""The harness's error tree: each class corresponds to what the caller does next."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.events import FailureKind


class HarnessError(Exception):
    """Base of all errors that the harness raises deliberately."""


class SetupError(HarnessError):
    """The agent cannot be built as the config says, or with its files; the text names what to change."""


class ToolSetupError(SetupError):
    """A tool of the config is not available; the text names its key."""


class ModelSetupError(SetupError):
    """A configured model cannot be built; the text says what to change in the config or what to install."""


class ModelFailure(HarnessError):
    """A model call ended without an answer, and a retry does not help now; the runner turns it into Failed.

    retry_after: seconds after which the provider wants to be called again. detail: for the log only.
    """

    def __init__(self, kind: FailureKind, *, model: str, detail: str, retry_after: float | None = None) -> None:
        super().__init__(f"{model}: {kind}: {detail}")
        self.kind = kind
        self.model = model
        self.detail = detail
        self.retry_after = retry_after


class UnfitChange(HarnessError):
    """A change does not fit the thread's state; the text says why."""


class ThreadTooLarge(UnfitChange):
    """A thread would exceed its size limit; the text gives the limit."""


class GuardrailSetupError(SetupError):
    """The guardrail provider cannot be used. The text names the key."""


def imported(use: str, key: str) -> Any:
    """Import the object that a `module:name` of the config refers to. key: of the setting. Raises ToolSetupError."""
    module, _, name = use.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise ToolSetupError(f"{key}: {module} cannot be imported: {error}") from error
    except AttributeError as error:
        raise ToolSetupError(f"{key}: {module} has no {name}") from error
