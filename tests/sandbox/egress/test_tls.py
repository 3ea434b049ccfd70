"""The context that is shared: one for all who trust the same, read again when its file was replaced."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from sandbox.egress.tls import trust
from tests.simulators.proxy.authority import PrivateAuthority

if TYPE_CHECKING:
    from pathlib import Path


def authority(folder: Path) -> PrivateAuthority:
    folder.mkdir()
    return PrivateAuthority.create(folder)


def test_it_is_made_once_for_all_who_trust_the_same(tmp_path: Path) -> None:
    ca_file = authority(tmp_path / "ca").cert
    assert trust(None) is trust(None) is not trust(ca_file)
    assert trust(ca_file) is trust(ca_file)


def test_a_file_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    shutil.copy(authority(tmp_path / "old").cert, file)
    old = trust(file)
    file.unlink()
    shutil.copy(authority(tmp_path / "new").cert, file)
    serials = [{each["serialNumber"] for each in context.get_ca_certs()} for context in (old, trust(file))]
    assert len(serials[0] ^ serials[1]) == 2


def test_a_file_that_cannot_be_used_is_an_error_each_time(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    for name, why in (("missing.pem", "No such file"), ("ca.pem", "no certificate"), ("ca.pem", "no certificate")):
        with pytest.raises(OSError, match=why):
            trust(tmp_path / name)
