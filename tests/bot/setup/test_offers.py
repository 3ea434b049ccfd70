"""The models that a provider lists, behind the network of the config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.setup.offers import models_of
from tests.simulators.model.client import ModelSimulator
from tests.simulators.process import SimulatorProcess
from tests.simulators.proxy.authority import PrivateAuthority

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_provider_behind_a_private_authority_lists_its_models(tmp_path: Path) -> None:
    authority = PrivateAuthority.create(tmp_path)
    tls = authority.issue("127.0.0.1")
    with SimulatorProcess("tests.simulators.model", "--tls-cert", str(tls.cert), "--tls-key", str(tls.key)) as process:
        async with ModelSimulator(process.port, authority.cert) as simulator:
            url, key = simulator.base_url, simulator.api_key
            assert await models_of(url, key) == []
            assert await models_of(url, key, route=(None, authority.cert)) != []
            assert await models_of(url, key, route=(None, tmp_path / "missing.pem")) == []
