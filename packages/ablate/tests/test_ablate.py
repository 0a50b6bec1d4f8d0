"""`gristmill ablate` from two recipes to a verdict, on a CPU. Needs torch: `make test-proxy` installs it."""

import json
import os
import random
import shutil
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from gristmill.cli.main import main
from gristmill.engine.executors.executor import lacking
from gristmill.install_command import install_package
from gristmill.store.store import Store
from gristmill.tokenizer.files import write_json
from gristmill.tokenizer.model import Tokenizer
from gristmill_ablate import ablation
from gristmill_ablate.setups import setup_of
from gristmill_ablate.stages import evaluate, train
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
DECONTAMINATE = "[decontaminate: {{suite: evals}}]"


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


def refused(patch, capsys, *words):
    """The message of a command that runs in this process."""
    patch.setattr(sys, "argv", ["gristmill", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    return capsys.readouterr().err


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
def test_without_torch_the_command_names_the_extra(recipes, monkeypatch, capsys):
    """Before it trains; what needs no training works without it."""
    monkeypatch.chdir(recipes)
    command_line = install_package("ablate", "torch")
    expected = f"gristmill ablate trains models with torch, which is not installed. Run: {command_line}"
    assert expected in refused(monkeypatch, capsys, *ASKED)


def test_a_plan_with_a_wrong_suite_is_refused(monkeypatch, capsys):
    """A plan says what a run would do, and this run would stop."""
    assert "suite: no suite.yaml in this folder." in refused(monkeypatch, capsys, *ASKED, "--plan")


@pytest.mark.slow
def test_the_same_corpora_are_answered_at_once(recipes):
    """Without torch. Another recipe with the same shards and mixture is the same corpus: not better, and not worse."""
    text = (recipes / "words.yaml").read_text()
    (recipes / "same.yaml").write_text(text.replace("recipe: words", "recipe: same"))
    gristmill(recipes, "run", "same.yaml", "--workers", "1")
    same = ("ablate", "words.yaml", "same.yaml", "--suite", "suite")
    for more, code in [((), 0), (("--gate", "better"), 3), (("--gate", "not-worse", "--margin", "1%"), 0)]:
        ended = gristmill(recipes, *same, *more, code=code)
        assert ended.stdout == (
            "A and B are the same corpus: the same shards and the same mixture. Nothing was trained.\n"
        )
    assert json.loads(gristmill(recipes, *same, "--json").stdout) == {"verdict": "same"}
    assert "No ablation has kept a verdict" in gristmill(recipes, "ablate", "same.yaml", "--list").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--gate", "best"), "--gate best is not a rule, so nothing was trained. Rules: better, not-worse."),
        (("--gate", "not-worse"), "--gate not-worse and --margin belong together"),
        (("--margin", "1%"), "--gate not-worse and --margin belong together"),
        (("--gate", "not-worse", "--margin", "x"), "--margin: nothing was trained, because 'x' is not a share."),
    ],
)
def test_a_gate_that_could_not_judge_is_refused(monkeypatch, capsys, words, message):
    assert message in " ".join(refused(monkeypatch, capsys, *ASKED, *words).split())


@needs_torch
@pytest.mark.slow
def test_numbers_are_worse_than_words(recipes):
    """The verdict and the gate; and nothing is trained twice."""
    ended = gristmill(recipes, *ASKED, "--json", "--gate", "better", code=3)
    found = json.loads(ended.stdout)
    assert found["verdict"] == "worse"
    assert found["items"] == {"suite": 18, "scored": 18, "counting": 18}
    assert [task["name"] for task in found["tasks"]] == ["cloze", "prose", "overall"]
    measures = {f"{name}_per_{unit}" for name in ("accuracy", "probability") for unit in ("character", "token")}
    assert found["tasks"][0]["others"].keys() == measures
    again = gristmill(recipes, *ASKED)
    assert "B is worse" in again.stdout
    last = sorted((recipes / "store" / "runs").glob("ablate_*/*.json"))[-1]
    record = Store(str(recipes / "store")).read_json(str(last.relative_to(recipes / "store")))
    assert sum(node["executed"] for node in record["nodes"].values()) == 0
    assert not list((recipes / "store" / "checkpoints").glob("*"))
    assert "18 of 18 items of the suite were scored, and 18 count." in again.stdout
    ended = gristmill(recipes, *ASKED, "--gate", "not-worse", "--margin", "0.5%", code=3)
    assert "% worse, and the margin is 0.5%." in " ".join(ended.stderr.split())
    listed = gristmill(
        recipes, "ablate", "words.yaml", "--list"
    ).stdout  # one verdict, although it was found three times
    assert listed.count("numbers.yaml against words.yaml: worse (+") == 1
    assert "docs/ingest: input: numbers.jsonl is new" in " ".join(listed.split())
    [kept] = map(json.loads, gristmill(recipes, "ablate", "words.yaml", "--list", "--json").stdout.splitlines())
    assert (kept["verdict"], kept["margin"], kept["seeds"]) == ("worse", 0.005, 3)


@needs_torch
@pytest.mark.slow
def test_a_training_that_was_killed_ends_with_the_same_losses(recipes, tmp_path, monkeypatch):
    """Bit by bit, from its last checkpoint."""
    from gristmill.shardformat.manifest import read_manifest
    from gristmill_ablate.proxy import train as training
    from gristmill_ablate.proxy.pool import thin
    from gristmill_ablate.proxy.stream import Training

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


@needs_torch
@pytest.mark.slow
def test_the_gate_refuses_a_win_on_leaked_items(recipes):
    """Half of the items, all in capitals, are in B: B is better on these alone. They do not count, and the gate says
    so. A has the same documents, decontaminated.
    """
    shutil.copytree(recipes / "suite", recipes / "evals")
    shouted = [text.upper() for text in sentences(7, 4)]
    write(recipes / "evals" / "prose.jsonl", [{"text": text} for text in [*sentences(8, 4), *shouted]])
    write(recipes / "leaked.jsonl", [{"text": text} for text in [*sentences(1, 12), *shouted * 4]])
    leaked = RECIPE.replace("40k", "6k")
    guarded = leaked.replace("{name}.jsonl", "leaked.jsonl").replace("steps: []", f"steps: {DECONTAMINATE}")
    for name, text in (("guarded", guarded), ("leaked", leaked)):
        (recipes / f"{name}.yaml").write_text(text.format(name=name))
        gristmill(recipes, "run", f"{name}.yaml", "--workers", "1")
    asked = (
        "ablate",
        "guarded.yaml",
        "leaked.yaml",
        "--suite",
        "evals",
        "--tokens",
        "6k",
        "--workers",
        "1",
        "--gate",
        "better",
    )
    ended = gristmill(recipes, *asked, "--json", code=3)
    found = json.loads(ended.stdout)
    assert found["touched"] == {"prose": {"A": 0, "B": 4}}
    assert found["verdict"] != "better"
    assert found["on_touched"][-1]["verdict"] == "better"
    assert "B is better on the 4 items that are in its training data" in " ".join(ended.stderr.split())
    assert [remark[:17] for remark in found["remarks"] if "not decontaminated" in remark] == ["B (leaked.yaml) w"]


@needs_torch
@pytest.mark.slow
def test_a_sweep_runs_recipes(recipes):
    """Each value is run and compared with the recipe as it is; models of the recipe are trained once."""
    asked = ("ablate", "words.yaml", "--suite", "suite", "--tokens", "4k", "--seeds", "2", "--workers", "1")
    ended = gristmill(recipes, *asked, "--sweep", "mix.max_epochs=40,30", "--json")
    found = json.loads(ended.stdout)
    assert [one["variant"] for one in found] == ["mix.max_epochs=40", "mix.max_epochs=30"]
    records = sorted((recipes / "store" / "runs").glob("ablate_*/*.json"))[-2:]
    store = Store(str(recipes / "store"))
    nodes = [store.read_json(str(path.relative_to(recipes / "store")))["nodes"] for path in records]
    ran = [{name for name, node in each.items() if node["executed"] and "/train_" in name} for each in nodes]
    assert "A/train_0" not in ran[0] & ran[1]


@needs_torch
def test_an_answer_counts_as_generated_exactly_if_the_model_writes_it():
    """Judged in one pass, as a loop that generates token by token judges it; a longer word is another answer."""
    import torch

    from gristmill.stages.decontaminate.suite.form import Item
    from gristmill_ablate.proxy.evaluate import score
    from gristmill_ablate.proxy.items import encode_items
    from gristmill_ablate.proxy.model import SIZES, Decoder
    from gristmill_ablate.proxy.train import weights_of

    vocab, width = 12, 3
    model = Decoder(SIZES["3m"], vocab, 0)
    with torch.no_grad():  # a model that has learnt nothing, but says something else after each token
        for layer in model.layers:
            layer.down.weight.normal_(0, 0.5, generator=torch.Generator().manual_seed(1))
    draw = random.Random(0)
    questions = [[draw.randrange(1, vocab) for _ in range(4)] for _ in range(40)]

    def generated(question, count):
        tokens = [0, *question]
        for _ in range(count):
            with torch.no_grad():
                hidden = model(torch.tensor([tokens]))
                tokens.append(int((hidden[0, -1] @ model.embedding.weight.T).argmax()))
        return tokens[1 + len(question) :]

    wrong = [draw.random() < 0.5 for _ in questions]
    answers = [generated(question, width) for question in questions]
    answers = [[*each[:-1], (each[-1] + 1) % vocab] if bad else each for each, bad in zip(answers, wrong, strict=True)]
    spell = "abcdefghijkl"
    texts = [["".join(spell[token] for token in each) for each in kind] for kind in (questions, answers)]
    items = [Item("task", str(n), *pair, (), (), "") for n, pair in enumerate(zip(*texts, strict=True))]
    continues = [token % 2 == 0 for token in range(vocab)]

    def encode(text):
        return [spell.index(letter) for letter in text.strip()]

    held = encode_items(items, encode, 0, 64, 10**6, lambda: continues)
    _, found = score([weights_of(model, "cpu")], "3m", vocab, held, "cpu")
    expected = []
    for question, answer in zip(questions, answers, strict=True):
        *written, after = generated(question, width + 1)
        expected.append(written == answer and not continues[after])
    assert found.tolist() == [float(each) for each in expected]
    assert 0 < sum(expected) < wrong.count(False) < len(questions)


def stop_after(steps, rate_at):
    def rate(config, step, decay_from):
        if step == steps:
            raise KeyboardInterrupt
        return rate_at(config, step, decay_from)

    return rate


def test_an_ablation_runs_where_it_is_told_to(tmp_path):
    """Trainings are tasks of the engine, so they run on a cluster as other tasks do."""
    manifest = SimpleNamespace(hash="0" * 64, samples=10**6, seq_len=512)
    side = ablation.Side("a", SimpleNamespace(manifest=manifest, view=None))
    made = ablation.Ablation(side, side, "suite", setup_of("3m"), Store(str(tmp_path)), ("ray", "head:6379"))
    mill = made._trainings.graph("ablate").mill()
    assert (mill.executor_name, mill.address) == ("ray", "head:6379")


@pytest.mark.parametrize("stage", [train, evaluate])
def test_a_gpu_is_needed_unless_the_cpu_is_chosen(stage):
    """So a machine without one refuses the task before anything runs."""
    needs = [stage.resources(stage.Config.model_construct(size="30m", device=device), 0) for device in ("cuda", "cpu")]
    assert lacking(needs[0], None, 0) == "1 GPU, but this machine has none"
    assert lacking(needs[0], None, 1) is None
    assert lacking(needs[1], None, 0) is None


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize(
    "cluster", [pytest.param("ray", marks=pytest.mark.ray), pytest.param("slurm", marks=pytest.mark.slurm)]
)
def test_trainings_on_a_cluster_are_those_of_this_machine(cluster, recipes, request):
    """The same scores, bit by bit."""
    asked = [*ASKED, "--json", "--seeds", "2", "--store"]
    here = gristmill(recipes, *asked, "x").stdout
    there = request.getfixturevalue("ray_nodes" if cluster == "ray" else "slurm")
    address = ["--address", there.address] if cluster == "ray" else []
    found = gristmill(recipes, *asked, "y", "--executor", cluster, *address).stdout
    assert json.loads(found) == json.loads(here)
