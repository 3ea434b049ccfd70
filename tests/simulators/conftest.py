"""What the simulators' own tests share."""

import os

import pytest

from tests.simulators.process import PROXY_VARIABLES


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """SDKs read the proxy variables by themselves, and some know no exceptions for loopback."""
    for name in [name for name in os.environ if name.lower() in PROXY_VARIABLES]:
        monkeypatch.delenv(name)
