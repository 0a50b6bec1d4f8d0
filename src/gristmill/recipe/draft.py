"""A recipe while it is being loaded: its values, their lines, and the mistakes found so far."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gristmill.recipe.checks.locations import exists, locate, why_not
from gristmill.recipe.checks.mistakes import Mistakes, Path, dotted
from gristmill.recipe.yaml.lines import Tree

_HUB_NAME = re.compile(r"[\w-]++/[\w-][\w.-]*+")


@dataclass(frozen=True)
class Draft:
    """What every part of loading needs."""

    tree: Tree
    mistakes: Mistakes
    folder: str
    """The recipe's own folder, absolute: what its relative paths are relative to."""
    seed: int
    """Fills the field `seed` of a config that does not set its own."""
    domains: Mapping[str, str] = field(default_factory=dict)
    """Of the sources that have one; fills the field `source_domains` of a config."""

    def add(self, path: Path, message: str) -> None:
        """A mistake in the value at `path`."""
        self.mistakes.add(self.tree.line_of_value(path), message)

    def add_at_key(self, path: Path, message: str, fault: str | None = None) -> None:
        """A mistake in the key at `path`, or in what should hold it; the same `fault` is told once."""
        self.mistakes.add(self.tree.line_of_key(path), message, fault)

    def lacks(self, sources: Mapping[str, object]) -> bool:
        """Whether these are not all sources of the recipe: one with a mistake may have any domain and tier."""
        named = self.tree.value.get("sources")
        return not isinstance(named, dict) or len(sources) < len(named)

    def check_scheme(self, path: Path, location: str) -> bool:
        """Whether some file system opens `location`; a mistake where none does."""
        reason = why_not(location)
        if reason:
            self.add(path, f"{dotted(path)}: {reason}")
        return reason is None

    def place_file(self, text: str, path: Path) -> str:
        """The location of a file that a config names; a mistake where nothing is there."""
        location = locate(text, self.folder)
        if not self.check_scheme(path, location):
            return location
        try:
            if not exists(location):
                fix = "Correct the path."
                if path[0] == "tokenizer" and _HUB_NAME.fullmatch(text):
                    fix = "Nothing is downloaded by its name on a hub: download its tokenizer.json and name that file."
                self.add(path, f"{dotted(path)} is {text!r}, and {location} does not exist. {fix}")
        except Exception as error:  # an object store fails in its library's own ways
            cause = f"{type(error).__name__}: {error}"
            self.add(path, f"{dotted(path)}: {location} cannot be reached ({cause}). Check access to it.")
        return location
