"""A stage accepts every number that a recipe may contain; numbers that a kernel cannot take fail on load."""

import json
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from demo import evals
from gristmill.engine.mill import Mill, Silent
from gristmill.errors import UserError
from gristmill.recipe.load import load
from gristmill.recipe.settings import ReferenceEntry, all_entries
from gristmill.recipe.stage_module import known_steps
from gristmill.tokenizer.files import write_json
from gristmill.tokenizer.model import Tokenizer
from gristmill_pdf.layout.child import CONTROL

VALUES = ("0", "1", "2", "5e-324", "0.1234567891", "0.9999999999", "16", "600", "65536", "2147483648", "4294967296")
VALUES += ("1000000000000000000", str(2**60), str(2**63 - 1), "1e300", "1.7976931348623157e308")
"""Ordered from the smallest to the largest."""
FINE = ("0.1234567891",)
"""Ten decimals are one more than comparisons accept."""
JUDGE = {"model": "m", "servers": "['http://localhost:1/v1']"}
"""It gets no request: the documents have no parents and no page images."""
NEEDED = {"heuristics": ["signals", "code_signals", "language"], "keep_language": ["language"]}
ALSO = {
    "keep_language": {"keep": "{en: 0.1}"},
    "decontaminate": {"suite": "evals"},
    "entail": JUDGE,
    "ocr": JUDGE,
}
NEEDED |= {
    "keep_quality": ["language", "signals"],
    "safety": ["signals", "quality: {models: {q: {file: toxic.bin, label: fine}}}"],
}
ALSO |= {"keep_quality": {"score": "signals.words", "min_score": "3"}}
ALSO |= {"quality": {"models": "{q: {file: toxic.bin, label: fine}}"}}
ALSO |= {"perplexity": {"models": "{p: mill.arpa}"}, "count_tokens": {"tokenizer": "tokenizer.json"}}
ALSO |= {"safety": {"max_scores": "{q: 0.8}", "max_blocked_share": "0.1"}}
KEYS = {
    "keep": "en",
    "max_scores": "q",
    "sample_bytes": "d",
    "domains": "d",
    "tiers": "A",
    "upsample": "s",
    "floors": "language",
}
"""The names to use for settings that map names to numbers."""
TRAIN = {"sample_bytes": "{d: 1MB}", "vocab": "600"}
HOW = ("partitions", "continues.at_sample", "continues.at_tokens", "max_generated", "max_family_epochs")
HOW += ("index.statuses", "serve.gpus", "serve.memory", "serve.ready_s", "budget.money")
"""Settings for the number of tasks, and settings that need an existing training run, a generated source, an
index, a command or a price.
"""
QUICK = ("exact_dedup", "lines", "jsonl", "read")
"""The quick tests: steps and sections with few numbers."""


@cache
def entries() -> dict[str, ReferenceEntry]:
    """By name; it takes half a second, which collecting tests should not."""
    return {entry.name: entry for entry in all_entries()}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files that the recipes name."""
    folder = tmp_path_factory.mktemp("files")
    text = "The mill number {} stands by the water and grinds grain of many farmers.\n\nIt has two stones. "
    lines = [{"text": text.format(n % 5) * (1 + n % 3), "url": f"http://a.org/{n}"} for n in range(12)]
    pages = [{"html": f"<html><body><p>{text.format(n)}</p></body></html>"} for n in range(3)]
    for name, records in (("texts", lines), ("pages", pages)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "terms.txt").write_text("mill\n")
    (folder / "text.pdf").write_bytes(CONTROL)
    for name in ("toxic.bin", "mill.arpa"):
        shutil.copy(Path(__file__).parents[1] / "stages" / "quality" / name, folder)
    write_json(Tokenizer.from_merges("gristmill", np.zeros(0, np.int32), np.zeros(0, np.int32)), folder)
    question = lines[0]["text"].split(".")[0]
    evals.write(folder / "evals", {"mill": [evals.Item("m", f"{question}?", "two stones")]})
    return folder


@pytest.fixture
def folder(files, tmp_path):
    return shutil.copytree(files, tmp_path, dirs_exist_ok=True)


def written(values: dict[str, str]) -> str:
    """A mapping as YAML, from dotted names."""
    tree: dict = {}
    for name, value in values.items():
        place, *rest = name.split(".")
        tree.setdefault(place, {})[".".join(rest)] = value
    message = (f"{name}: {some['']}" if "" in some else f"{name}: {written(some)}" for name, some in tree.items())
    return "{" + ", ".join(message) + "}"


def _is_of_manuals(setting: str) -> bool:
    """Whether it belongs to the rules that replace those for prose."""
    return setting.startswith("documentation.")


def recipe_with(entry: ReferenceEntry, values: dict[str, str]) -> str:
    read, steps, last = {"format": "jsonl", "paths": "[texts.jsonl]"}, [], ""
    if entry.kind == "step":
        if entry.name == "heuristics":
            sets = (
                "documentation"
                if any(map(_is_of_manuals, values))
                else "gopher_repetition, gopher_quality, c4, fineweb"
            )
            values = {"rules": f"[{sets}, code]", **values}
        if entry.name == "extract":
            read |= {"paths": "[pages.jsonl]", "fields": "{html: html}"}
        if entry.name == "ocr":
            read = {"format": "pdf", "paths": "[text.pdf]", "images": "true"}
        prefix = "heuristics."
        rules = {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
        own = {name: value for name, value in values.items() if not name.startswith(prefix)}
        steps += [*NEEDED.get(entry.name, ()), f"{entry.name}: {written({**ALSO.get(entry.name, {}), **own})}"]
        if rules:
            steps += [f"entail: {written(JUDGE)}", f"heuristics: {written(rules)}"]
    elif entry.name in ("jsonl", "read"):
        read |= values
    else:
        train = written(TRAIN | values if entry.name == "tokenizer" else TRAIN)
        last = f"tokenizer: {{train: {train}}}\n"
        if entry.name in ("shards", "mix"):
            last += f"shards: {written({'seq_len_tokens': '64'} | (values if entry.name == 'shards' else {}))}\n"
        if entry.name == "mix":
            phase = {name.removeprefix("phases."): some for name, some in values.items() if name.startswith("phases.")}
            if any(name.startswith("learning_rate.") for name in phase):
                phase = {"learning_rate.shape": "linear", "learning_rate.start": "1", "learning_rate.end": "0", **phase}
            whole = {name: some for name, some in values.items() if not name.startswith("phases.")}
            phases = {"phases": f"[{written({'name': 'p'} | phase)}]"} if phase else {}
            last += f"mix: {written(whole | phases)}\n"
    return (
        "recipe: r\nseed: 1\nstore: 'memory://numbers'\n"
        f"sources:\n  s: {{kind: text, domain: d, tier: A, read: {written(read)}}}\n"
        f"steps: [{', '.join(steps)}]\n{last}"
    )


def numbers_of(entry: ReferenceEntry) -> Iterator[tuple[str, str]]:
    """The settings that are numbers, and how to write each one."""
    for setting in entry.settings:
        if setting.type.startswith("one of"):
            continue
        if any(word in setting.type for word in ("number", "count", "bytes")) and setting.name not in HOW:
            form = "{}"
            if setting.type.startswith("names with"):
                form = f"{{{{{KEYS[setting.name.rpartition('.')[2]]}: {{}}}}}}"
            yield setting.name, "[{}]" if setting.type.startswith("list of") else form


def loads(folder, entry: ReferenceEntry, values: dict[str, str]) -> bool:
    (folder / "r.yaml").write_text(recipe_with(entry, values))
    try:
        load(folder / "r.yaml")
    except UserError as error:
        message = str(error)
    else:
        return True
    assert message.startswith(f"{folder}/r.yaml:"), "without its line"
    return False


def runs(folder) -> bool:
    """Whether a run finishes. A UserError counts, since it is about the documents; any other error is raised."""
    try:
        Mill(load(folder / "r.yaml", store=f"memory://{folder.name}")).run(None, Silent())
    except UserError:
        return False
    return True


def _row(name: str):
    return pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)


@pytest.mark.parametrize("name", map(_row, [*known_steps(), "jsonl", "read", "tokenizer", "shards", "mix"]))
def test_a_recipe_that_loads_can_run(folder, name):
    """Tests the smallest and the largest allowed value of every number, and one with many decimals.

    All are set at once, or one by one if that is rejected.
    """
    entry = entries()[name]
    rounds: list[dict[str, str]] = [{}, {}, {}]
    for setting, form in numbers_of(entry):
        for values, tried in zip(rounds, (VALUES, VALUES[::-1], FINE), strict=True):
            written_so = (form.format(value) for value in tried)
            taken = next((value for value in written_so if loads(folder, entry, {setting: value})), None)
            assert taken is not None or tried is FINE, f"no {setting} is right"
            values |= {setting: taken} if taken is not None else {}
    apart = [{one: value for one, value in values.items() if _is_of_manuals(one)} for values in rounds]
    rounds = [{one: value for one, value in values.items() if not _is_of_manuals(one)} for values in rounds]
    for values in (*rounds, *filter(None, apart)):
        for some in [values] if loads(folder, entry, values) else [{one: value} for one, value in values.items()]:
            assert loads(folder, entry, some)
            runs(folder)


def test_the_recipe_of_these_tests_runs(folder):
    """Otherwise the previous test would prove nothing."""
    for name in (*known_steps(), "mix"):
        assert loads(folder, entries()[name], {})
        assert runs(folder), name
