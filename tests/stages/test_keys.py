"""Task keys: a field that only reports read is in no key, and every other field is."""

import importlib
import pkgutil

import pytest
from tests.stages.test_golden import CONFIGS, step_output

from demo import evals
from gristmill import stages
from gristmill.engine.plan.graph import build
from gristmill.recipe.stage_module import known_steps
from gristmill.stages.config_types import fields_of_output


def reported(module):
    config = getattr(module, "Config", None)
    return () if config is None else sorted({*config.model_fields} - fields_of_output(config.model_construct()))


FOUND = [
    (name, field)
    for name, module_name in known_steps().items()
    for field in reported(importlib.import_module(module_name))
    if name not in ("entail", "ocr")
]
OTHER = {"golden": "pages"}
"""Another value for each of them."""
NOT_ASKED = ("servers", "serve", "api_key_env", "concurrency", "limits", "price", "budget")
ELSEWHERE = [
    ("gristmill.stages.decontaminate.eval_scan_new", "suite"),
    *(("gristmill.stages.dedup.copies_left", field) for field in ("why", "fix")),
    *((f"gristmill.stages.generate.{name}", field) for name in ("generate", "entail") for field in NOT_ASKED),
    *(("gristmill.stages.ocr.ocr", field) for field in NOT_ASKED),
    ("gristmill.stages.takedown.takedown", "texts"),
    ("gristmill.stages.proxy.domain_pool", "location"),
    ("gristmill.stages.proxy.pool", "location"),
    ("gristmill.stages.proxy.train", "checkpoints"),
]
"""Of stages that are no steps or ask a server, with the tests that try them: tests/stages/decontaminate/test_growth.py,
tests/stages/dedup/test_copies_left.py, tests/stages/generate/test_entail.py, tests/stages/ocr/test_ocr.py,
tests/stages/takedown/test_takedown.py, tests/proxy/test_ablate.py, tests/proxy/test_mix.py.
"""


def test_there_are_some():
    """And all of them belong to steps that are tested below."""
    modules = [
        importlib.import_module(found.name) for found in pkgutil.walk_packages(stages.__path__, "gristmill.stages.")
    ]
    marked = {(module.__name__, field) for module in modules for field in reported(module)}
    assert {*((known_steps()[name], field) for name, field in FOUND), *ELSEWHERE} == marked
    assert {field for _, field in FOUND} == set(OTHER)


@pytest.mark.parametrize(("name", "field"), FOUND)
def test_no_output_depends_on_a_field_for_reports(name, field):
    """The stage gives the same output with another value."""
    module = importlib.import_module(known_steps()[name])
    values = CONFIGS.get(name, {})
    changed = {**values, field: OTHER[field]}
    configs = [module.Config.model_validate(each) for each in (values, changed)]
    assert getattr(configs[0], field) != OTHER[field]
    assert step_output(module, configs[0]) == step_output(module, configs[1])


def test_every_other_field_is_in_the_key(project):
    """It is in the identity of its stage."""
    evals.write(project.folder / "evals", {"b": [evals.Item("one", "Which stone of the mill turns?", "the runner")]})
    steps = ("near_dedup", "line_dedup", "substring_dedup", "simhash_dedup", "decontaminate: {suite: evals}")
    project.write_recipe("".join(f"  - {step}\n" for step in steps))
    mill = project.mill()
    for node in build(mill.recipe, mill.contents).nodes.values():
        assert set(node.identity["config"]) == fields_of_output(node.config)
