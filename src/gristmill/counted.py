"""Numbers with what they count, as everybody is told them: `1 document`, `1,234 documents`."""


def counted(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun, and with the verb where that goes with it: `counted(n, "file is", "files are")`."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
