"""What must fail a test although nobody asserts on it, such as an endpoint that the simulator does not have."""


class Problems:
    """Kept until the test's client asks for them at its end."""

    def __init__(self) -> None:
        self._found: list[tuple[str | None, str]] = []

    def add(self, account: str | None, text: str) -> None:
        """Something that an account (None: somebody unknown) did."""
        self._found.append((account, text))

    def take(self, account: str | None) -> list[str]:
        """What this account or somebody unknown did (None: everybody); taken away by being read."""
        mine = [problem for problem in self._found if account is None or problem[0] in (None, account)]
        self._found = [problem for problem in self._found if problem not in mine]
        return [text for _, text in mine]
