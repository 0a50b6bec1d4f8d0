"""Law 10: the work of a stage grows no faster than the size of a document. Every stage has a worst case.

Work is counted, not timed. `make test-work` also counts the work inside compiled kernels.
"""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
from fuzz.meter import METERED
from tests.laws.attacks import ATTACKS
from tests.laws.worst_cases import ADDRESSES, COVERED, CUSTOM, SHAPES, run_step, table_of, work_of

from exchanged import stages_of
from gristmill import stages
from gristmill.recipe.stage_module import known_formats, known_steps
from gristmill.tokenizer.files import write_json
from gristmill.tokenizer.model import Tokenizer

SIZES = (1 << 9, 1 << 11, 1 << 13)
MOST_GROWTH = 5.5
"""Growth of the work for four times the input: 4 if it is linear, up to 5 with a sort, 16 if it is quadratic."""
FEW_A_BYTE = 4
"""Work per additional byte that is negligible compared with the fixed cost of a run."""
QUALITY = Path(__file__).parents[1] / "stages" / "quality"
CONFIGS = {
    "heuristics": {"rules": ["gopher_repetition", "gopher_quality", "c4", "fineweb", "code"]},
    "keep_language": {"keep": {"en": 0.5}},
    "gate": {"allow_licenses": ["MIT"]},
    "robots": {"agent": "CCBot"},
    "quality": {"models": {"toxic": {"file": str(QUALITY / "toxic.bin"), "label": "toxic"}}},
    "keep_quality": {"score": {"rank_mean": ["signals.words", "-signals.digit_chars"]}, "keep_best": 0.6},
    "near_dedup": {"max_bucket": 32},
    "safety": {"max_blocked_share": 0.01},
}
WITH_MODELS = {"decontaminate", "perplexity", "count_tokens", "entail"}
"""Steps that need a model, an index or a server: worst_cases.py runs them with one."""
TRAINED = {"decontaminate", "quality_models", "model_files", "tokens", "tokenizer_files"}
FOR_MODELS = (
    "one word again and again",
    "different words of one line",
    "one word without end",
    "letters of other scripts",
    "a footer that all share",
    "equal texts at one address",
)
"""Shapes for the cases that build a model or an index in each run."""
WITHOUT_A_CASE = {
    f"gristmill_ablate.stages.{name}"
    for name in ("domain_pool", "doremi", "evaluate", "held_out", "items", "pool", "train")
}
"""Stages of ablations: they train and score models on shards and items that other stages wrote. None has a case yet."""
READ_BY = {"wet": "warc", "text": "markdown"}
"""Formats -> the reader of attacks.py that covers them."""


def test_every_stage_has_a_worst_case():
    """A new stage is a step here or has its own run."""
    folders = [Path(stages.__file__).parent, *Path(__file__).parents[2].glob("packages/*/src")]
    found = {
        ".".join(path.relative_to(folder).with_suffix("").parts)
        for folder in folders
        for path in folder.rglob("*.py")
        if re.search(r"^STAGE\b", path.read_text(), re.MULTILINE)
    }
    known = {name for names in COVERED.values() for name in names}
    for name, path in known_steps().items():
        if name in WITH_MODELS:
            continue
        module = importlib.import_module(path)
        parts = [one for _, one, _ in module.STAGE.before(module.Config.model_validate(CONFIGS.get(name, {})))]
        known |= {one.removeprefix("gristmill.stages.") for one in (path, *parts)}
    readers = {path.removeprefix("gristmill.stages.") for path in known_formats().values()}
    assert found >= readers
    assert found - known - readers == WITHOUT_A_CASE
    assert {READ_BY.get(name, name) for name in known_formats()} <= {attack.reader for attack in ATTACKS}


def _row(name):
    return pytest.param(name, marks=() if name in ("index", "requests") else pytest.mark.slow)


@pytest.mark.parametrize("name", [*map(_row, [*sorted(known_steps().keys() - WITH_MODELS), *CUSTOM])])
def test_work_grows_no_faster_than_the_documents(name, tmp_path):
    """For every shape, four times the input takes at most about four times the work."""
    grown = {}
    with METERED:
        work_at(name, "a footer that all share", SIZES[0], tmp_path)  # the first run fills the caches
        for shape in shapes_of(name):
            work = [work_at(name, shape, size, tmp_path) for size in SIZES]
            if is_steep(work):  # a limit may be between two sizes: a steep step counts only if it continues
                work.append(work_at(name, shape, 4 * SIZES[2], tmp_path))
            if is_steep(work[-3:]):
                grown[shape] = work
    assert grown == {}, f"work for {SIZES} bytes"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tokenizer_file", "tokenizer_pin"])
def test_work_grows_no_faster_than_the_tokens_of_a_file(name, tmp_path):
    """A tokenizer trained on small texts has few tokens beyond the 256 bytes, which would hide the growth."""
    work = []
    for count in (256, 256, 1024, 4096):  # the first run fills the caches
        tokens = np.arange(count, dtype=np.int32)
        write_json(Tokenizer.from_merges("gristmill", tokens & 255, tokens >> 8), tmp_path)
        with METERED:
            stage = importlib.import_module(f"gristmill.stages.tokenizer.{name}")
            config = stage.Config(**{stage.STAGE.copies: str(tmp_path / "tokenizer.json")})
            work.append(work_of(lambda stage=stage, config=config: _taken_in(stage, config, tmp_path / "copy.json")))
    less, more = np.diff(work[1:]).tolist()
    assert more <= MOST_GROWTH * less, f"work {work[1:]}"


def _taken_in(stage, config, path):
    stage.check(config)
    stage.make(config, path)


def work_at(name, shape, size, folder):
    table = table_of((SHAPES | ADDRESSES)[shape](size))
    return work_of(CUSTOM[name](folder, table) if name in CUSTOM else run_step(name, CONFIGS.get(name, {}), table))


def shapes_of(name):
    if name in TRAINED:  # each shape takes seconds
        return FOR_MODELS
    return {**SHAPES, **(ADDRESSES if reads_addresses(name) else {})}


def reads_addresses(name):
    if name in CUSTOM:
        return name in ("takedown", "index", "requests")
    module = importlib.import_module(known_steps()[name])
    parts = stages_of(module, module.Config.model_validate(CONFIGS.get(name, {})))
    return any("url" in (*stage.STAGE.reads_of(part), *stage.STAGE.may_read_of(part)) for stage, part, _ in parts)


def is_steep(work):
    """Whether additional input costs more per byte than the input before it."""
    less, more = np.diff(work).tolist()
    return more > MOST_GROWTH * (less if less > 0 else work[0]) + FEW_A_BYTE * (SIZES[2] - SIZES[1])
