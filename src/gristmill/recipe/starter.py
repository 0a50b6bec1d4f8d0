"""The recipe that `gristmill init` writes: one source that works, and the others a comment away."""

from pathlib import Path

NAME = "recipe.yaml"
"""What the file is called, where nobody says otherwise."""
STARTER = Path(__file__).with_name("starter.yaml").read_text("utf-8")


def starter(name: str) -> str:
    """The text for a file of that name, whose commands can be taken from it as they stand."""
    return STARTER.replace(f" {NAME} ", f" {name} ")
