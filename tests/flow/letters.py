"""An operator's own tool for the tests of approvals: it records its work in the file given by LETTERS."""

from __future__ import annotations

import os
from pathlib import Path

from langchain_core.tools import tool

LETTERS = "LETTERS"


class Letters:
    """The letters sent by a gateway with these variables."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "letters"
        self._file.touch()
        self.environment = {LETTERS: str(self._file)}

    @property
    def sent(self) -> list[str]:
        """The recipients, in order."""
        return self._file.read_text().split()

    def forget(self) -> None:
        self._file.write_text("")


@tool
def send_letter(to: str) -> str:
    """Send a letter, which cannot be taken back."""
    with Path(os.environ[LETTERS]).open("a") as file:
        file.write(f"{to}\n")
    return f"the letter to {to} is sent"


send_letter.metadata = {"foreign": False}
