"""Warnings with names, by which a recipe can accept them (`accept:`)."""


class Warned(str):
    """The text of a warning. One without a name has that of its step."""

    name: str
    step: str

    def __new__(cls, name: str, text: str, step: str = "") -> "Warned":
        warned = super().__new__(cls, text)
        warned.name, warned.step = name, step
        return warned


class Warnings(list[str]):
    """The warnings of a step."""

    def add(self, name: str, text: str) -> None:
        self.append(Warned(name, text))


def idle(seen: object, done: object, text: str) -> list[Warned]:
    """A warning about a step that had something to work on and did nothing (law 7)."""
    return [Warned("no_effect", text)] if seen and not done else []
