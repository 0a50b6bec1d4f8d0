"""A recipe while it is loaded: its values, their lines, and the mistakes found so far."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gristmill.recipe.checks.locations import exists, locate, why_not
from gristmill.recipe.checks.mistakes import Mistakes, Path, dotted
from gristmill.recipe.yaml.lines import YamlTree

_HUB_NAME = re.compile(r"[\w-]++/[\w-][\w.-]*+")


@dataclass(frozen=True)
class Draft:
    """The state that every part of loading needs."""

    tree: YamlTree
    mistakes: Mistakes
    folder: str
    """The recipe's folder, absolute; relative paths in the recipe are relative to it."""
    seed: int
    """Fills the field `seed` of a config that does not set its own."""
    domains: Mapping[str, str] = field(default_factory=dict)
    """Domains by source, for the sources that have one; fills the field `source_domains` of a config."""

    def add(self, path: Path, message: str) -> None:
        """Add a mistake in the value at `path`."""
        self.mistakes.add(self.tree.line_of_value(path), message)

    def add_at_key(self, path: Path, message: str, fault: str | None = None) -> None:
        """Add a mistake in the key at `path`, or in the mapping that lacks it; the same `fault` is reported once."""
        self.mistakes.add(self.tree.line_of_key(path), message, fault)

    def lacks(self, sources: Mapping[str, object]) -> bool:
        """Whether some sources of the recipe are missing here: one with a mistake may have any domain and tier."""
        named = self.tree.value.get("sources")
        return not isinstance(named, dict) or len(sources) < len(named)

    def check_scheme(self, path: Path, location: str) -> bool:
        """Whether some file system can open `location`; adds a mistake if none can."""
        reason = why_not(location)
        if reason:
            self.add(path, f"{dotted(path)}: {reason}")
        return reason is None

    def place_file(self, text: str, path: Path) -> str:
        """The location of a file that a config names; adds a mistake if it does not exist."""
        location = locate(text, self.folder)
        if not self.check_scheme(path, location):
            return location
        try:
            if not exists(location):
                fix = "Correct the path."
                if path[0] == "tokenizer" and _HUB_NAME.fullmatch(text):
                    fix = "Tokenizers are not downloaded from a hub: download its tokenizer.json and name that file."
                self.add(path, f"{dotted(path)} is {text!r}, but {location} does not exist. {fix}")
        except Exception as error:  # the libraries of object stores raise anything
            cause = f"{type(error).__name__}: {error}"
            self.add(path, f"{dotted(path)}: {location} cannot be reached ({cause}). Check access to it.")
        return location
