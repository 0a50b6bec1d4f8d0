"""`gristmill mix propose`, and whether both methods find what is wrong with a mixture. Training needs torch."""

import json
import random
from importlib.util import find_spec

import numpy as np
import pytest
from test_ablate import gristmill, needs_torch, refused, write

from gristmill.errors import UserError
from gristmill.install_command import install_package
from gristmill.recipe.yaml.lines import parse
from gristmill.store.store import Store
from gristmill_ablate import mix
from gristmill_ablate.proxy.domains import DomainPool, shared_documents
from gristmill_ablate.proxy.items import SuiteItem, encode_items
from gristmill_ablate.proxy.stream import Training
from gristmill_ablate.proxy.swarm import MixtureSpace, propose
from sharded import WORDS, Corpus

NAMES = ("a", "b", "c", "copy", "noise", "precious")
VOCAB, WINDOW = 256, 64


def chain(number, count, draw):
    """Texts of one of several languages: each token has three followers, one of them likely."""
    base = 1 + 24 * number
    followers = np.stack([np.random.default_rng([number, at]).permutation(24)[:3] for at in range(24)])
    choices = draw.choice(3, (WINDOW, count), p=[0.7, 0.2, 0.1])
    texts, at = np.empty((count, WINDOW), np.int64), np.zeros(count, np.int64)
    for place in range(WINDOW):
        at = followers[at, choices[place]]
        texts[:, place] = base + at
    return texts


@pytest.fixture(scope="module")
def six():
    """Three languages, a copy of the first, random tokens, and a small language; and held-out texts of each."""
    draw, each, held = np.random.default_rng(0), 60, 8
    texts = {name: chain(number, each + held, draw) for number, name in enumerate("abc")}
    texts |= {"copy": texts["a"], "noise": draw.integers(1, VOCAB, (each + held, WINDOW))}
    texts["precious"] = chain(3, 10 + held, draw)
    pieces = np.concatenate([texts[name][held:] for name in NAMES])
    domain = np.concatenate([np.full(len(texts[name]) - held, number) for number, name in enumerate(NAMES)])
    keys = np.unique(pieces, axis=0, return_inverse=True)[1].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    apart = np.concatenate([texts[name][:held] for name in NAMES])
    return DomainPool(
        pieces.astype(np.uint16).flatten(),
        np.arange(len(pieces) + 1) * WINDOW,
        keys,
        np.zeros(len(pieces), np.int32),
        np.zeros(1, bool),
        VOCAB,
        0,
        NAMES,
        domain,
        held_tokens=apart.flatten(),
        held_starts=np.arange(len(apart) + 1) * WINDOW,
        held_domain=np.repeat(range(6), held),
        shared=shared_documents(keys, domain, 6),
    )


@pytest.fixture
def tiny(monkeypatch):
    from gristmill_ablate.proxy import model

    monkeypatch.setitem(model.SIZES, "tiny", model.Size(1, 64))


def space_of(pool, epochs=4):
    natural = np.bincount(pool.domain) / len(pool.domain)
    return MixtureSpace(NAMES, natural, np.zeros(6), natural * epochs)


def check(shares, natural):
    """The useless domain falls, the small one rises, and a text does not count twice because it is there twice."""
    found, was = (dict(zip(NAMES, values, strict=True)) for values in (shares, natural))
    assert found["noise"] < was["noise"] / 2
    assert found["precious"] > 2 * was["precious"]
    assert found["a"] + found["copy"] < 0.9 * (found["b"] + found["c"])


@needs_torch
@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_a_swarm_finds_the_useless_the_copied_and_the_precious_domain(six):
    """21 trainings of a few seconds in all; left-out runs are predicted in the right order."""
    from gristmill_ablate.proxy.evaluate import score
    from gristmill_ablate.proxy.train import train

    texts = six.held_tokens.reshape(-1, WINDOW).tolist()
    held = [SuiteItem(NAMES[of], "", " ".join(map(str, text))) for of, text in zip(six.held_domain, texts, strict=True)]
    items = encode_items(held, lambda text: [*map(int, text.split())], 0, WINDOW + 1, 10**6)
    space = space_of(six)
    tried = space.design(21)
    scores = []
    for row in tried:
        config = Training("tiny", 10_240, sequence=WINDOW, batch=512, rate=1e-2, shares=tuple(row))
        snapshots, _ = train(six, config)
        scores.append(np.bincount(items.task, score(snapshots, "tiny", VOCAB, items, "cpu")[0]))
    by_domain = dict(zip(NAMES, np.array(scores).T, strict=True))
    found = propose(space, tried, by_domain, dict(zip(NAMES, 1 / six.shared.sum(1), strict=True)))
    check(found.shares, space.natural)
    assert found.gain[2] < 0
    assert found.rank_correlation > 0.8


@needs_torch
@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_doremi_finds_them_too(six, tmp_path, monkeypatch):
    """With a reference on equal shares; a run that was stopped ends with the same weights, bit by bit."""
    from gristmill_ablate.proxy import doremi
    from gristmill_ablate.proxy.train import train

    space = space_of(six)
    equal = tuple(space.project(np.full(6, 1 / 6)))
    config = Training("tiny", 25_600, sequence=WINDOW, batch=128, rate=3e-3, shares=equal)
    reference = train(six, config)[0][-1]
    alphas = doremi.reweigh(six, config, reference)
    assert alphas.shape == (200, 6)
    assert alphas.sum(1) == pytest.approx(np.ones(200), abs=1e-5)
    check(alphas.mean(0), space.natural)
    short = Training("tiny", 8 * 128, sequence=WINDOW, batch=128, shares=equal)
    whole = doremi.reweigh(six, short, reference)
    monkeypatch.setattr(doremi, "CHECKPOINT_STEPS", 3)
    rate_at = doremi.rate_at
    monkeypatch.setattr(doremi, "rate_at", lambda config, step, at: 1 / 0 if step == 5 else rate_at(config, step, at))
    with pytest.raises(ZeroDivisionError):
        doremi.reweigh(six, short, reference, str(tmp_path))
    monkeypatch.setattr(doremi, "rate_at", rate_at)
    assert (doremi.reweigh(six, short, reference, str(tmp_path)) == whole).all()


RECIPE = """recipe: mixed
store: ./store
sources:
{sources}steps: []
tokenizer: {{file: tokenizer.json}}
shards: {{seq_len_tokens: 256}}
mix: {{tokens: 20k, max_epochs: 4}}
"""
SOURCE = "  {0}: {{kind: text, read: {{format: jsonl, paths: [{0}.jsonl]}}, domain: {0}}}\n"
ASKED = ("mix", "propose", "mixed.yaml", "--tokens", "1k", "--workers", "1")


def write_recipe(folder, *names):
    draw = random.Random(1)
    for number, name in enumerate(names):
        words = [word[number:] + word[:number] for word in WORDS]
        write(folder / f"{name}.jsonl", [{"text": " ".join(draw.choices(words, k=40))} for _ in range(60)])
    (folder / "mixed.yaml").write_text(RECIPE.format(sources="".join(SOURCE.format(name) for name in names)))
    gristmill(folder, "run", "mixed.yaml", "--workers", "1")


@needs_torch
@pytest.mark.slow
def test_a_proposal_is_printed_and_trained_once_and_a_new_domain_needs_fewer_runs(project):
    """The recipe stays as it is; the block is YAML that a recipe takes."""
    Corpus(project)
    folder = project.folder
    write_recipe(folder, "notes", "tales")
    before = (folder / "mixed.yaml").read_text()
    ended = gristmill(folder, *ASKED, "--runs", "4", "--floor", "tales=0.2", "--out", "first.yaml")
    assert ended.stdout == (folder / "first.yaml").read_text()
    assert (folder / "mixed.yaml").read_text() == before
    shares = parse(ended.stdout, {}, []).value["mix"]["domains"]
    assert sum(shares.values()) == pytest.approx(1, abs=0.001)
    assert shares["tales"] >= 0.2
    assert json.loads(gristmill(folder, *ASKED, "--runs", "4", "--floor", "tales=0.2", "--json").stdout)["evidence"]
    last = sorted((folder / "store" / "runs").glob("mix_*/*.json"))[-1]
    record = Store(str(folder / "store")).read_json(str(last.relative_to(folder / "store")))
    assert sum(node["executed"] for node in record["nodes"].values()) == 0
    assert "# DoReMi: 2 trainings of 3m models" in gristmill(folder, *ASKED, "--method", "doremi").stdout


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")
def test_without_torch_the_command_names_the_extra(monkeypatch, capsys):
    command_line = install_package("ablate", "torch")
    expected = f"gristmill mix trains models with torch, which is not installed. Run: {command_line}"
    assert expected in refused(monkeypatch, capsys, *ASKED)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"method": "dormi"}, "--method dormi: there is no such method, so nothing was trained. It is swarm, doremi."),
        ({"size": "7b"}, "--size 7b: there is no such size"),
        ({"device": "tpu"}, "--device tpu: there is no such device"),
        ({"method": "doremi", "runs": 9}, "--runs is for --method swarm"),
        ({"tokens": "0"}, "--tokens 0: a model trained on no tokens shows nothing"),
        ({"floor": ["code"]}, "--floor code: write DOMAIN=SHARE, as code=0.05"),
        ({"floor": ["code=5%"]}, "--floor code=5%: write DOMAIN=SHARE"),
        ({"target": ["code=-1"]}, "--target code=-1: write NAME=WEIGHT, as code=2"),
        ({"out": mix.Path("nowhere/p.yaml")}, "there is no folder nowhere, so nothing was trained"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_opened(options, told, monkeypatch):
    """Also without torch, which is not the mistake."""
    monkeypatch.setattr("gristmill_ablate.arguments.find_spec", lambda name: None)
    with pytest.raises(UserError) as error:
        mix.propose_command("none.yaml", **options)
    assert told in str(error.value)
