"""The harness's error tree: what a caller does next decides the class."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.events import FailureKind


class HarnessError(Exception):
    """Base of all errors that the harness raises on purpose."""


class SetupError(HarnessError):
    """The agent cannot be built as the config says; the text names what to change."""


class ToolSetupError(SetupError):
    """A tool of the config cannot be had; the text names its key."""


class ModelSetupError(SetupError):
    """A configured model cannot be built; the text says what to change in the config or what to install."""


class ModelFailure(HarnessError):
    """A model call ended without an answer and trying again does not help now; the runner turns it into Failed.

    retry_after: seconds after which the provider wants to be asked again. detail: for the log only.
    """

    def __init__(self, kind: FailureKind, *, model: str, detail: str, retry_after: float | None = None) -> None:
        super().__init__(f"{model}: {kind}: {detail}")
        self.kind = kind
        self.model = model
        self.detail = detail
        self.retry_after = retry_after


class UnfitChange(HarnessError):
    """What is to be written into a thread does not fit what is in it; the text says why."""


class ThreadTooLarge(UnfitChange):
    """A thread would hold more than it may; the text says how much that is."""


class GuardrailSetupError(SetupError):
    """The provider of guardrails cannot be used. The text names the key."""


def imported(use: str, key: str) -> Any:
    """What a `module:name` of the config leads to. key: of the setting. Raises ToolSetupError."""
    module, _, name = use.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise ToolSetupError(f"{key}: {module} cannot be imported: {error}") from error
    except AttributeError as error:
        raise ToolSetupError(f"{key}: {module} has no {name}") from error
