"""Task keys: a field that only reports read is in no key, and every other field is."""

import importlib
import pkgutil

from demo import evals
from gristmill import stages
from gristmill.engine.plan.graph import build
from gristmill.stages.config_types import fields_of_output


def reported(module):
    config = getattr(module, "Config", None)
    return () if config is None else sorted({*config.model_fields} - fields_of_output(config.model_construct()))


ELSEWHERE = [
    *(("gristmill.stages.dedup.copies_left", field) for field in ("why", "fix")),
    ("gristmill.stages.takedown.takedown", "texts"),
]
"""Of stages that are no steps or ask a server, with the tests that try them: tests/stages/dedup/test_copies_left.py,
tests/stages/takedown/test_takedown.py.
"""


def test_every_field_for_reports_is_known():
    """And a test of its stage tries another value."""
    modules = [
        importlib.import_module(found.name) for found in pkgutil.walk_packages(stages.__path__, "gristmill.stages.")
    ]
    marked = {(module.__name__, field) for module in modules for field in reported(module)}
    assert set(ELSEWHERE) == marked


def test_every_other_field_is_in_the_key(project):
    """It is in the identity of its stage."""
    evals.write(project.folder / "evals", {"b": [evals.Item("one", "Which stone of the mill turns?", "the runner")]})
    steps = ("near_dedup", "line_dedup", "substring_dedup", "decontaminate: {suite: evals}")
    project.write_recipe("".join(f"  - {step}\n" for step in steps))
    mill = project.mill()
    for node in build(mill.recipe, mill.contents).nodes.values():
        assert set(node.identity["config"]) == fields_of_output(node.config)
