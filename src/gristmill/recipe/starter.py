"""The recipe that `gristmill init` writes: one source that works, and others in comments."""

from pathlib import Path

NAME = "recipe.yaml"
"""The default name of the file."""
STARTER = Path(__file__).with_name("starter.yaml").read_text("utf-8")


def starter(name: str) -> str:
    """The text for a file of that name; the commands in it can be copied as they are."""
    return STARTER.replace(f" {NAME} ", f" {name} ")
