"""The `accept` of a recipe: warnings that its author knows and accepts. No key depends on it."""

from pydantic import Field

from gristmill.recipe.checks.check import check
from gristmill.recipe.checks.mistakes import Path, show
from gristmill.recipe.draft import Draft
from gristmill.stages.contract import StageConfig
from gristmill.warned import Warned

AT: Path = ("accept",)


class AcceptFields(StageConfig):
    """A warning that is accepted."""

    name: str = Field(min_length=1)
    """the name of the warning, as a run prints it in brackets"""
    reason: str = Field(min_length=1)
    """why it is accepted"""
    step: str | None = None
    """the step that it is about, such as crawl/ingest or near_dedup; default: any"""

    def covers(self, warning: Warned) -> bool:
        """Whether it accepts a warning."""
        steps = (None, warning.step, warning.step.rpartition("/")[2])
        return warning.name == self.name and self.step in steps


def load_accept(draft: Draft, raw: object) -> tuple[AcceptFields, ...]:
    """The field `accept`: names with their reasons, or a list of entries."""
    if AT in draft.tree.broken:
        return ()
    found: list[AcceptFields | None] = []
    if isinstance(raw, dict):
        for name, reason in raw.items():
            if isinstance(reason, str) and reason.strip():
                found.append(check(draft, AcceptFields, {"name": name, "reason": reason}, AT))
            else:
                draft.add((*AT, name), f"accept.{name} must be the reason as text, not {show(reason)}.")
    for number, one in enumerate(raw if isinstance(raw, list) else ()):
        if isinstance(one, dict):
            found.append(check(draft, AcceptFields, one, (*AT, number)))
        else:
            draft.add((*AT, number), f"accept[{number}] must be {{name, reason}}, not {show(one)}.")
    return tuple(one for one in found if one is not None)
