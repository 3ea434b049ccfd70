"""Problems that must fail a test without an assertion, such as a call of an endpoint that the simulator lacks."""


class Problems:
    """Kept until the test's client asks for them at its end."""

    def __init__(self) -> None:
        self._found: list[tuple[str | None, str]] = []

    def add(self, account: str | None, text: str) -> None:
        """Record something that an account (None: an unknown one) did."""
        self._found.append((account, text))

    def take(self, account: str | None) -> list[str]:
        """Return and clear the problems of this account and of unknown ones (None: of all)."""
        mine = [problem for problem in self._found if account is None or problem[0] in (None, account)]
        self._found = [problem for problem in self._found if problem not in mine]
        return [text for _, text in mine]
