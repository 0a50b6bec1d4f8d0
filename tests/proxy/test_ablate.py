"""`gristmill ablate` from two recipes to a verdict, on a CPU. Needs torch: `make test-proxy` installs it."""

import json
import os
import random
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from gristmill.store.store import Store
from gristmill.tokenizer.files import write_json
from gristmill.tokenizer.model import Tokenizer
from sharded import WORDS

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed: make test-proxy")
RECIPE = """
recipe: {name}
store: ./store
sources: {{docs: {{kind: text, read: {{format: jsonl, paths: [{name}.jsonl]}}, domain: docs}}}}
steps: []
tokenizer: {{file: tokenizer.json}}
shards: {{seq_len_tokens: 256}}
mix: {{tokens: 40k, domains: {{docs: 1}}, max_epochs: 50}}
"""
SUITE = """
suite: few
version: "1"
benchmarks:
  prose: {files: prose.jsonl, question: text}
  cloze: {files: cloze.jsonl, question: question, answer: answer, choices: [a, b]}
"""


def sentences(seed, count):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=40)) for _ in range(count)]


def write(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)))


def gristmill(folder, *words, code=0):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run(
        [sys.executable, "-m", "gristmill", *words], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended


@pytest.fixture(scope="module")
def recipes(tmp_path_factory):
    """Sentences of words, and numbers; a suite of other sentences."""
    folder = tmp_path_factory.mktemp("ablate")
    empty = np.zeros(0, np.int32)
    write_json(Tokenizer.from_merges("gristmill", empty, empty), folder)
    draw, texts = random.Random(3), sentences(1, 120)
    for name in ("words", "numbers"):
        rows = [{"text": text if name == "words" else " ".join(draw.choices("0123456789", k=90))} for text in texts]
        write(folder / f"{name}.jsonl", rows)
        (folder / f"{name}.yaml").write_text(RECIPE.format(name=name))
        gristmill(folder, "run", f"{name}.yaml", "--workers", "1")
    (folder / "suite").mkdir()
    (folder / "suite" / "suite.yaml").write_text(SUITE)
    write(folder / "suite" / "prose.jsonl", [{"text": text} for text in sentences(2, 6)])
    pairs = [(" ".join(words[:-1]), words[-1]) for words in (text.split()[:6] for text in sentences(4, 12))]
    rows = [{"question": question, "answer": right, "a": right, "b": "zzzz"} for question, right in pairs]
    write(folder / "suite" / "cloze.jsonl", rows)
    return folder


ASKED = ("ablate", "words.yaml", "numbers.yaml", "--suite", "suite", "--seeds", "3", "--tokens", "8k", "--workers", "1")


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")
def test_without_torch_the_command_names_the_extra(tmp_path):
    """Before it opens anything."""
    ended = gristmill(tmp_path, *ASKED, code=2)
    assert "gristmill ablate needs torch, which is not installed: pip install 'gristmill[torch]'." in ended.stderr


@needs_torch
@pytest.mark.slow
def test_numbers_are_worse_than_words(recipes):
    """The verdict and the gate; and nothing is trained twice."""
    ended = gristmill(recipes, *ASKED, "--json", "--gate", code=3)
    found = json.loads(ended.stdout)
    assert found["verdict"] == "worse"
    assert [task["name"] for task in found["tasks"]] == ["cloze", "prose", "overall"]
    assert found["tasks"][0]["others"].keys() == {"accuracy", "probability"}
    again = gristmill(recipes, *ASKED)
    assert "B is worse" in again.stdout
    last = sorted((recipes / "store" / "runs").glob("ablate_*/*.json"))[-1]
    record = Store(str(recipes / "store")).read_json(str(last.relative_to(recipes / "store")))
    assert sum(node["executed"] for node in record["nodes"].values()) == 0
    assert not list((recipes / "store" / "checkpoints").glob("*"))


@needs_torch
@pytest.mark.slow
def test_a_training_that_was_killed_ends_with_the_same_losses(recipes, tmp_path, monkeypatch):
    """Bit by bit, from its last checkpoint."""
    from gristmill.proxy import train as training
    from gristmill.proxy.pool import thin
    from gristmill.proxy.stream import Training
    from gristmill.shardformat.manifest import read_manifest

    monkeypatch.setattr(training, "CHECKPOINT_STEPS", 3)
    pool = thin(read_manifest(recipes / "store/shards/words/latest"), 4096)
    config = Training("3m", 8 * 512, sequence=128, batch=512)
    whole = training.train(pool, config)
    monkeypatch.setattr(training, "rate_at", stop_after(5, training.rate_at))
    with pytest.raises(KeyboardInterrupt):
        training.train(pool, config, str(tmp_path))
    monkeypatch.undo()
    resumed = training.train(pool, config, str(tmp_path))
    assert resumed[1] == whole[1]
    for one, other in zip(resumed[0], whole[0], strict=True):
        assert all((one[name] == other[name]).all() for name in other)


def stop_after(steps, rate_at):
    def rate(config, step, decay_from):
        if step == steps:
            raise KeyboardInterrupt
        return rate_at(config, step, decay_from)

    return rate
