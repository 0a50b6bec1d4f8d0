"""`gristmill budget` as a user types it."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from gristmill.cli.run import budget
from gristmill.errors import UserError
from stages.mix.mixing import catalogue, mixed

app = typer.Typer()
app.command(epilog=budget.EXAMPLE)(budget.command)


def typed(*arguments):
    return CliRunner().invoke(app, list(arguments))


def said(*arguments):
    done = typed(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_targets_are_the_published_ratios():
    """20 tokens a parameter are compute-optimal; the models that gave the others get back what they were trained on."""
    found = {target["name"]: target for target in said("--params", "7e9")["targets"]}
    assert found["compute-optimal"]["tokens"] == 140 * 10**9
    assert found["compute-optimal"]["flops"] == 6 * 7 * 10**9 * 140 * 10**9
    big = {target["name"]: target["tokens"] for target in said("--params", "405B")["targets"]}
    assert big["as Llama 3 405B"] == pytest.approx(15.6e12, rel=0.001)
    small = {target["name"]: target["tokens"] for target in said("--params", "8B")["targets"]}
    assert small["as Llama 3 8B"] == 15 * 10**12


@pytest.mark.parametrize(("params", "tokens"), [("7e9", "2T"), ("7B", "2e12"), ("7_000_000_000", "2000B")])
def test_numbers_may_be_written_in_any_way(params, tokens):
    """Exponents, units, digits."""
    assert said("--params", params, "--tokens", tokens) == said("--params", "7B", "--tokens", "2T")


def test_a_requested_number_of_tokens_is_shown_with_the_targets():
    """In tokens a parameter."""
    last = said("--params", "1B", "--tokens", "50B")["targets"][-1]
    assert (last["name"], last["tokens_per_param"]) == ("requested", 50)


@pytest.mark.parametrize(
    ("params", "width", "model"),
    [
        ("7e9", 4096, "GPT-3 6.7B"),
        ("8B", 4096, "GPT-3 6.7B"),
        ("1.3B", 2048, "GPT-3 1.3B"),
        ("400B", 16384, "Llama 3 405B"),
        ("1M", 128, "Pythia 14M"),
    ],
)
def test_a_width_is_guessed_from_models_of_that_size(params, width, model):
    """And what is guessed from which model is said, with the way to say better."""
    found = said("--params", params)["embedding"]
    assert found["width"] == width
    assert found["width_guessed_from"] == model
    shown = " ".join(typed("--params", params).stdout.split())
    assert f"The width is a guess: that of {model}, the published model nearest to" in shown
    assert "Give yours with --width" in shown


def test_embeddings_are_vocabulary_times_width():
    """Twice that untied: 128K x 4096 is 524M parameters."""
    tied = said("--params", "7B", "--width", "4096", "--vocab", "128000")["embedding"]
    untied = said("--params", "7B", "--width", "4096", "--vocab", "128k", "--untied")["embedding"]
    assert tied["params"] == 128_000 * 4096 == untied["params"] // 2
    assert untied["share"] == pytest.approx(2 * tied["share"])
    assert tied["width_guessed_from"] is None


def test_days_are_flops_over_the_speed_of_all_gpus():
    """One GPU that does all of it in a day, at half its peak."""
    flops = 6 * 10**9 * 20 * 10**9
    peak = str(2 * flops // 86400)
    one = said("--params", "1B", "--gpus", "1", "--flops-per-gpu", peak, "--mfu", "0.5")["targets"][0]
    four = said("--params", "1B", "--gpus", "4", "--flops-per-gpu", peak, "--mfu", "0.5")["targets"][0]
    assert one["days"] == pytest.approx(1, rel=1e-6)
    assert four["days"] == pytest.approx(0.25, rel=1e-6)
    assert said("--params", "1B")["targets"][0]["days"] is None


def test_epochs_are_over_the_tokens_of_a_manifest(tmp_path):
    """All that its groups have, drawn or not."""
    mixed(tmp_path, catalogue({"crawl": (600_000, 2), "wiki": (400_000, 1)}))
    found = said("--params", "1M", "--corpus", str(tmp_path / "manifest.json"), "--vocab", "1000")
    assert found["corpus_tokens"] == 10**6
    assert found["targets"][0]["epochs"] == 20
    shown = typed("--params", "1M", "--vocab", "1k", "--corpus", str(tmp_path)).stdout
    assert "epochs" in shown
    assert "1.00M tokens" in shown


def test_a_corpus_brings_its_vocabulary(tmp_path):
    """Unless --vocab gives another one."""
    mixed(tmp_path, catalogue({"crawl": (600_000, 2)}))
    known = json.loads((tmp_path / "manifest.json").read_text())["tokenizer"]["vocab_size"]
    options = ("--params", "10M", "--corpus", str(tmp_path))
    assert said(*options)["embedding"]["vocab"] == known != 128_000
    assert said(*options, "--vocab", "500")["embedding"]["vocab"] == 500
    assert said("--params", "1B")["embedding"]["vocab"] == 128_000


def test_a_vocabulary_larger_than_the_model_is_told():
    """With a guessed width it is said; with the user's own it is an error."""
    assert "use a smaller --vocab" in typed("--params", "10M").stdout
    with pytest.raises(UserError, match=r"128,000 tokens at width 4,096.*Correct --params, --vocab or --width"):
        budget.command(params="100M", width="4096")


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ({"params": "7x"}, "--params: nothing can be computed.*7B|100B"),
        ({"params": "0"}, "--params 0 is out of range"),
        ({"params": "7"}, r"--params 7 is a model with 7 parameters.*Did you mean 7B\?$"),
        ({"params": "125k"}, r"--params 125k is a model with 125,000 parameters.*such as 125M or 7B"),
        ({"params": "1e300"}, "--params: nothing can be computed, because .1e300. is too large"),
        ({"params": "7B", "tokens": "lots"}, "--tokens: nothing"),
        ({"params": "7B", "tokens": "2TB"}, r"--tokens: nothing.* Did you mean 2T\?$"),
        ({"params": "7B", "gpus": "0.5"}, "--gpus: nothing.*whole number"),
        ({"params": "7B", "mfu": 40.0}, "--mfu 40 is not a share"),
        ({"params": "7B", "corpus": "no.json"}, "no.json does not exist"),
    ],
)
def test_a_wrong_number_is_refused_with_its_option(given, result):
    """Fact, consequence, fix."""
    with pytest.raises(UserError, match=result):
        budget.command(**given)


def test_a_recipe_stands_for_its_latest_shards(tmp_path, monkeypatch):
    """So does STORE@RECIPE; for a recipe without shards, the message has the command that makes them."""
    monkeypatch.chdir(tmp_path)
    Path("r.yaml").write_text(
        "recipe: mine\nstore: ./kept\nsources: {a: {kind: text, read: {format: jsonl, paths: [a.jsonl]}}}\nsteps: []\n"
    )
    with pytest.raises(UserError, match=r"--corpus r\.yaml has no shards: .* Make them: gristmill run r\.yaml$"):
        budget.command(params="7B", corpus="r.yaml")
    folder = tmp_path / "kept/shards/mine/latest"
    folder.mkdir(parents=True)
    mixed(folder, catalogue({"crawl": (600_000, 2)}))
    by_folder = said("--params", "10M", "--corpus", str(folder))
    assert by_folder["corpus_tokens"] > 0
    assert (
        said("--params", "10M", "--corpus", "r.yaml") == by_folder == said("--params", "10M", "--corpus", "kept@mine")
    )
    Path("notes.txt").write_text("no manifest")
    with pytest.raises(UserError, match=r"notes.txt is not JSON .* Name the manifest.json"):
        budget.command(params="7B", corpus="notes.txt")
