"""Shared fixtures of the simulators' own tests."""

import os

import pytest

from tests.simulators.process import PROXY_VARIABLES


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the proxy variables: SDKs read them by themselves, and some have no exception for loopback."""
    for name in [name for name in os.environ if name.lower() in PROXY_VARIABLES]:
        monkeypatch.delenv(name)
