"""Checks the options of a run before any work, and sorts its warnings at its end."""

import re
from typing import Any, NamedTuple

from gristmill.counted import counted
from gristmill.engine.executors.registry import BUILT_IN, find
from gristmill.engine.mill import find_warnings
from gristmill.engine.schedule.run import Run
from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.installed import EXECUTORS, PACKAGES
from gristmill.recipe.model import Recipe
from gristmill.warned import Warned


def check_executor(executor: str | None, address: str | None, profile: str | None) -> None:
    """Check that the executor exists, and that the other options apply to it."""
    if executor is not None:
        find(executor)
    ours = executor in (None, *BUILT_IN, *PACKAGES[EXECUTORS])  # an executor of another package may use both
    if address is not None and ours and executor != "ray":
        raise UserError(
            f"{option('address', address)} only applies to {option('executor', 'ray')}. Add that, or omit "
            f"{option('address')}."
        )
    if profile is not None and ours and executor != "slurm":
        raise UserError(
            f"{option('profile', profile)} only applies to {option('executor', 'slurm')}. Add that, or omit "
            f"{option('profile')}."
        )


class RunWarnings(NamedTuple):
    """The warnings of a run."""

    new: list[Warned]
    known: list[Warned]
    """Those that the last run had, too, with numbers of the same size."""
    accepted: list[tuple[Warned, str]]
    """Those that the recipe accepts, with the reason."""
    is_first: bool
    """Whether there is no earlier run."""

    def in_words(self) -> str:
        """`17 warnings (15 as in the last run, 2 new), 3 accepted`."""
        number = counted(len(self.new) + len(self.known), "warning")
        parts = f" ({len(self.known):,} as in the last run, {len(self.new):,} new)"
        accepted = f", {len(self.accepted):,} accepted" if self.accepted else ""
        return f"{number}{'' if self.is_first or not (self.new or self.known) else parts}{accepted}"

    def plain(self) -> list[dict[str, Any]]:
        """As JSON: one row for each warning."""
        rows: list[tuple[Warned, bool, str | None]]
        rows = [(one, is_new, None) for some, is_new in ((self.new, True), (self.known, False)) for one in some]
        rows += [(one, False, reason) for one, reason in self.accepted]
        return [
            {"name": one.name, "step": one.step, "text": one, "new": is_new, "accepted": reason}
            for one, is_new, reason in rows
        ]

    def refuse(self, recipe: Recipe, stored: str = "output") -> None:
        """Raise UserError if the recipe is strict and there are warnings that it does not accept."""
        warnings = [f"{one} [{one.name}]" for one in (*self.new, *self.known)]
        if warnings and recipe.strict:
            raise UserError(
                f"{recipe.path}: strict is true and the run has {counted(len(warnings), 'warning')}: "
                f"{'; '.join(warnings)}. The {stored} is stored. Fix the recipe, accept them (accept: {{name: "
                "reason}), or set strict: false."
            )


def sort_warnings(run: Run, typed: str | None = None) -> RunWarnings:
    """The warnings of a finished run, in the words of this caller."""
    found, recorded = find_warnings(run, typed), run.ended["warnings"]
    before = {(one["name"], one["step"], _masked(one["text"])) for one in run.warned_before or ()}
    sorted_out = RunWarnings([], [], [], run.warned_before is None)
    for warning, record in zip(found, recorded, strict=True):
        reason = next((one.reason for one in run.graph.recipe.accept if one.covers(warning)), None)
        is_known = (warning.name, warning.step, _masked(record["text"])) in before
        if reason is not None:
            sorted_out.accepted.append((warning, reason))
        else:
            (sorted_out.known if is_known else sorted_out.new).append(warning)
    return sorted_out


def _masked(text: str) -> str:
    """A text with the size of each number instead of its digits: another count of the same size is no news."""
    return re.sub(r"\d[\d,.]*", lambda number: "9" * len(number[0]), text)
