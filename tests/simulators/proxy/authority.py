"""A private certificate authority for tests, made with the openssl command line."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.parts import missing

if TYPE_CHECKING:
    from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A server's certificate and its private key, both PEM files."""

    cert: Path
    key: Path


@dataclass(frozen=True, slots=True)
class PrivateAuthority:
    """A certificate authority. cert: the PEM file that clients must trust."""

    folder: Path
    cert: Path
    key: Path

    @classmethod
    def create(cls, folder: Path) -> PrivateAuthority:
        """Make a new authority in an existing folder. Raises CalledProcessError when openssl fails."""
        authority = cls(folder, folder / "ca.pem", folder / "ca.key")
        extensions = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
        subject = ("-subj", "/CN=Private test authority", "-days", "2")
        _openssl("req", "-x509", *_KEY, *subject, *extensions, "-keyout", authority.key, "-out", authority.cert)
        return authority

    def issue(self, host: str) -> Certificate:
        """Issue a certificate for this host name and for 127.0.0.1."""
        made = Certificate(self.folder / f"{host}.pem", self.folder / f"{host}.key")
        signer = ("-CA", self.cert, "-CAkey", self.key, "-days", "2")
        names = ("-addext", f"subjectAltName=DNS:{host},IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE")
        _openssl("req", "-x509", *_KEY, "-subj", f"/CN={host}", *signer, *names, "-keyout", made.key, "-out", made.cert)
        return made


def _openssl(*arguments: str | Path) -> None:
    if shutil.which("openssl") is None:
        missing("openssl is not installed (apt-get install openssl)")
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=20)
