"""`gristmill budget` as a user runs it."""

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


def invoke(*arguments):
    return CliRunner().invoke(app, list(arguments))


def budget_json(*arguments):
    done = invoke(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_targets_are_the_published_ratios():
    """20 tokens per parameter are compute-optimal; published models get the number of tokens that they
    were trained on.
    """
    targets = {target["name"]: target for target in budget_json("--params", "7e9")["targets"]}
    assert targets["compute-optimal"]["tokens"] == 140 * 10**9
    assert targets["compute-optimal"]["flops"] == 6 * 7 * 10**9 * 140 * 10**9
    big = {target["name"]: target["tokens"] for target in budget_json("--params", "405B")["targets"]}
    assert big["as Llama 3 405B"] == pytest.approx(15.6e12, rel=0.001)
    small = {target["name"]: target["tokens"] for target in budget_json("--params", "8B")["targets"]}
    assert small["as Llama 3 8B"] == 15 * 10**12


def test_targets_go_from_compute_optimal_to_the_weak_regime():
    """50 and 100 times compute-optimal and all published models, by tokens; each with its source, beyond 100 weak."""
    targets = budget_json("--params", "1B", "--tokens", "10B")["targets"]
    named = {target["name"]: target for target in targets}
    assert [named[f"{times} x optimal"]["tokens"] for times in (50, 100)] == [10**12, 2 * 10**12]
    assert {f"as {name}" for name, *_ in budget.MODELS} < set(named)
    assert all(target["source"] for name, target in named.items() if name.startswith("as "))
    assert [target["tokens"] for target in targets[:-1]] == sorted(target["tokens"] for target in targets[:-1])
    regimes = {target["times_optimal"]: target["regime"] for target in targets}
    assert {one: "weak" if one > 100 else "over-trained" for one in regimes if one > 1.001}.items() <= regimes.items()
    assert (regimes[1], regimes[0.5]) == ("optimal", "under-trained")
    shown = " ".join(invoke("--params", "1B").stdout.split())
    assert "weak: more than 100 x optimal, or more than 4 epochs" in shown
    assert "90% interval 100T to 1000T (Villalobos et al., arXiv 2211.04325" in shown


def test_tokens_are_a_share_of_the_text_that_there_is():
    """Llama 3 405B took 5% of an effective stock of 320T tokens."""
    targets = {target["name"]: target for target in budget_json("--params", "405B")["targets"]}
    assert targets["as Llama 3 405B"]["stock_share"] == pytest.approx(15.6 / 320)


def test_many_epochs_are_weak_too(tmp_path):
    """Repeated text beyond four epochs adds little, even below 100 times compute-optimal."""
    mixed(tmp_path, catalogue({"crawl": (600_000, 2), "wiki": (400_000, 1)}))
    corpus = ("--params", "1M", "--corpus", str(tmp_path / "manifest.json"))
    found = {one["epochs"]: one["regime"] for one in budget_json(*corpus, "--tokens", "4M")["targets"]}
    assert (found[4], found[20]) == ("under-trained", "weak")


@pytest.mark.parametrize(("params", "tokens"), [("7e9", "2T"), ("7B", "2e12"), ("7_000_000_000", "2000B")])
def test_numbers_accept_exponents_units_and_digits(params, tokens):
    """All spellings of a number give the same result."""
    assert budget_json("--params", params, "--tokens", tokens) == budget_json("--params", "7B", "--tokens", "2T")


def test_a_requested_number_of_tokens_is_shown_with_the_targets():
    """It is also shown as tokens per parameter."""
    last = budget_json("--params", "1B", "--tokens", "50B")["targets"][-1]
    assert (last["name"], last["tokens_per_param"]) == ("requested", 50)


def test_days_are_flops_over_the_speed_of_all_gpus():
    """One GPU at half its peak does all of the work in one day; four take a quarter of it."""
    flops = 6 * 10**9 * 20 * 10**9
    peak = str(2 * flops // 86400)
    one = budget_json("--params", "1B", "--gpus", "1", "--flops-per-gpu", peak, "--mfu", "0.5")["targets"][0]
    four = budget_json("--params", "1B", "--gpus", "4", "--flops-per-gpu", peak, "--mfu", "0.5")["targets"][0]
    assert one["days"] == pytest.approx(1, rel=1e-6)
    assert four["days"] == pytest.approx(0.25, rel=1e-6)
    assert budget_json("--params", "1B")["targets"][0]["days"] is None


def test_epochs_count_the_tokens_of_a_manifest(tmp_path):
    """All tokens of its groups count, drawn or not."""
    mixed(tmp_path, catalogue({"crawl": (600_000, 2), "wiki": (400_000, 1)}))
    result = budget_json("--params", "1M", "--corpus", str(tmp_path / "manifest.json"))
    assert result["corpus_tokens"] == 10**6
    assert result["targets"][0]["epochs"] == 20
    shown = invoke("--params", "1M", "--corpus", str(tmp_path)).stdout
    assert "epochs" in shown
    assert "1.00M tokens" in shown


@pytest.mark.parametrize(
    ("options", "message"),
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
def test_an_invalid_number_is_refused_with_its_option(options, message):
    """The message has the fact, the consequence and the fix."""
    with pytest.raises(UserError, match=message):
        budget.command(**options)


def test_a_recipe_means_its_latest_shards(tmp_path, monkeypatch):
    """STORE@RECIPE does too; for a recipe without shards, the message has the command that makes them."""
    monkeypatch.chdir(tmp_path)
    Path("r.yaml").write_text(
        "recipe: mine\nstore: ./kept\nsources: {a: {kind: text, read: {format: jsonl, paths: [a.jsonl]}}}\nsteps: []\n"
    )
    with pytest.raises(UserError, match=r"--corpus r\.yaml has no shards: .* Make them: gristmill run r\.yaml$"):
        budget.command(params="7B", corpus="r.yaml")
    folder = tmp_path / "kept/shards/mine/latest"
    folder.mkdir(parents=True)
    mixed(folder, catalogue({"crawl": (600_000, 2)}))
    by_folder = budget_json("--params", "10M", "--corpus", str(folder))
    assert by_folder["corpus_tokens"] > 0
    assert (
        budget_json("--params", "10M", "--corpus", "r.yaml")
        == by_folder
        == budget_json("--params", "10M", "--corpus", "kept@mine")
    )
    Path("notes.txt").write_text("no manifest")
    with pytest.raises(UserError, match=r"notes.txt is not JSON .* Name the manifest.json"):
        budget.command(params="7B", corpus="notes.txt")
