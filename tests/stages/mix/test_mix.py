"""The stage: manifests that the loader reads, that go on from earlier ones, and that tell what was not done."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import UserError
from gristmill.loader.continues import continues
from gristmill.loader.order import Order
from gristmill.shardformat.manifest import read_manifest
from gristmill.stages.mix import mix
from stages.mix.mixing import SEQ_LEN, catalogue, mixed

SIZES = {"crawl/A": (6400, 2), "crawl/B": (64_000, 4), "wiki/A": (3200, 1), "wiki/A@2": (640, 1)}
SOURCES = {"crawl": "web", "wiki": "reference"}
ASKED = {
    "sources": SOURCES,
    "domains": {"web": 0.8, "reference": 0.2},
    "tiers": {"A": 4, "B": 1},
    "tokens": 12_800,
    "phases": [
        {"name": "main", "share": 0.75},
        {"name": "cooldown", "share": 0.25, "tiers": {"A": 1, "B": 0}, "learning_rate": {"shape": "sqrt"}},
    ],
}


def test_the_loader_reads_the_manifest(tmp_path):
    """Its hash is right, its groups and phases add up, and its facts are those of the catalogue."""
    written, _, _ = mixed(tmp_path, catalogue(SIZES), **ASKED)
    read = read_manifest(tmp_path / "manifest.json")
    assert read.samples == sum(phase["samples"] for phase in written["phases"]) == 200
    assert [group.name for group in read.groups] == sorted(SIZES)
    assert (read.seq_len, read.token_bytes, read.seed, read.recipe) == (SEQ_LEN, 2, 5, "toy")
    assert [len(group.shards) for group in read.groups] == [2, 4, 1, 1]
    assert {group["domain"] for group in written["groups"]} == {"web", "reference"}
    assert [group["weight"] for group in written["groups"]] == [1.0, 1.0, 1.0, 2.0]
    assert read.phases[1].learning_rate == {"shape": "sqrt", "start": 1.0, "end": 0.0}
    assert written["files"] == {}


def test_every_phase_draws_its_weights_from_the_loader(tmp_path):
    """The loader's own count of a phase is what the plan says, and the cooldown has only its tiers."""
    written, _, _ = mixed(tmp_path, catalogue(SIZES), **ASKED)
    read = read_manifest(tmp_path / "manifest.json")
    main, cooldown = written["phases"]
    counts = Order(read).counts(main["samples"])
    assert {g.name: int(n) for g, n in zip(read.groups, counts, strict=True) if n} == main["weights"]
    assert set(cooldown["weights"]) == {"crawl/A", "wiki/A", "wiki/A@2"}


def test_the_order_of_the_catalogue_changes_no_byte(tmp_path):
    """Neither of groups nor of shards."""
    found = catalogue(SIZES)
    mixed(tmp_path, found, **ASKED)
    first = (tmp_path / "manifest.json").read_bytes()
    random.Random(1).shuffle(found["outputs"])
    mixed(tmp_path, found, **ASKED)
    assert (tmp_path / "manifest.json").read_bytes() == first


def test_groups_without_a_sample_are_left_out(tmp_path):
    """An empty group has no density; an empty shard of a group that has others stays."""
    found = catalogue({**SIZES, "crawl/C": (0, 1), "wiki/B": (1, 2)})
    written, _, _ = mixed(tmp_path, found, sources=SOURCES)
    shards = {group["name"]: len(group["shards"]) for group in written["groups"]}
    assert shards == {"crawl/A": 2, "crawl/B": 4, "wiki/A": 1, "wiki/A@2": 1, "wiki/B": 2}


def test_metrics_are_counts_that_sum(tmp_path):
    """Every leaf is a whole number: the engine adds them up."""
    _, found, _ = mixed(tmp_path, catalogue(SIZES), **ASKED)

    def leaves(value):
        return [leaf for inner in value.values() for leaf in leaves(inner)] if isinstance(value, dict) else [value]

    assert all(type(leaf) is int for leaf in leaves(found))
    domains = found["phases"]["main"]["domains"]
    assert sum(domain["target"] for domain in domains.values()) == pytest.approx(10**9, abs=10)
    assert sum(domain["tokens"] for domain in domains.values()) == found["phases"]["main"]["tokens"]


def test_nothing_is_told_where_all_is_as_asked(tmp_path):
    """A warning that always comes is not read."""
    assert mixed(tmp_path, catalogue(SIZES), **ASKED)[2] == []


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"max_epochs": 0.1}, ["crawl/A by", "than the caps (max_epochs) allow", "Add text, lower tokens"]),
        (
            {"max_epochs": {"wiki": 0.2}},
            [
                "max_epochs limits reference to 768 tokens in the whole training",
                "main requests 1,920 tokens (20.0%) and gets 128 (1.3%), ",
                "cooldown requests 640 tokens (20.0%) and gets 640 (20.0%)",
                "Other domains fill the gap",
                "raise its max_epochs",
            ],
        ),
        (
            {"max_epochs": {"wiki/A@2": 0.01}},
            ["max_epochs limits wiki/A@2 to 0 tokens", "main requests 548 tokens (5.7%) and gets 0 (0.0%)", "Add text"],
        ),
        (
            {"tokens": 640, "upsample": {"wiki": 1e-9}, "domains": "natural"},
            ["nothing of wiki/A", "less than one sample", "Raise the tokens"],
        ),
        ({"tokens": 1}, ["mix.tokens is 1, less than one sample for each of 2 phases", "are drawn"]),
        ({"sources": {**SOURCES, "wiki": "web"}}, ["the domain reference has nothing to draw", "corpus.funnel()"]),
        ({"max_epochs": {"wiki/B": 2}}, ["max_epochs lists the group wiki/B", "Groups: crawl/A"]),
        ({"sources": {**SOURCES, "zine": "web"}}, ["no document of the source zine", "corpus.funnel()"]),
        ({"upsample": {"wiki": 2}}, ["upsample.wiki has no effect", "only source of the domain reference"]),
    ],
)
def test_what_was_asked_and_not_done_is_told(tmp_path, asked, told):
    """With what it was and why."""
    warned = "\n".join(mixed(tmp_path, catalogue(SIZES), **{**ASKED, **asked})[2])
    for words in told:
        assert words in warned


def test_a_group_over_its_cap_is_told_once_and_by_how_much(tmp_path):
    """However many phases draw too much of it: the most that it comes to."""
    phases = [{"name": "one", "tokens": 12_800}, {"name": "other", "tokens": 6400}]
    asked = {"sources": {"crawl": "web"}, "max_epochs": 1, "phases": phases}
    warned = mixed(tmp_path, catalogue({"crawl": (6400, 1)}), **asked)[2]
    assert len(warned) == 1
    assert "groups exceed their caps: crawl by 2.00 epochs (12,800 tokens). Training" in warned[0]


def test_a_phase_that_gets_nothing_of_a_group_is_told_even_over_the_caps(tmp_path):
    """The cooldown asks for more of A than there is: it is over the cap, and main has nothing of A."""
    phases = [{"name": "main", "share": 0.5}, {"name": "cooldown", "tiers": {"A": 1, "B": 0}}]
    asked = {"sources": SOURCES, "tiers": {"A": 4, "B": 1}, "phases": phases, "tokens": 64_000}
    over, none = mixed(tmp_path, catalogue({"crawl/A": (6400, 1), "crawl/B": (64_000, 4)}), **asked)[2][:2]
    assert "crawl/A by 1.00 epochs" in over
    assert "main requests 9,142 tokens (28.6%) and gets 0 (0.0%), cooldown requests 32,000 tokens" in none


def test_many_short_groups_are_told_in_a_few_lines(tmp_path):
    """Three with their numbers, the others by number."""
    sizes = {f"crawl/{tier}": (640, 1) for tier in "ABCDEFG"} | {"crawl/Z": (64_000, 1)}
    tiers = dict.fromkeys("ABCDEFG", 9) | {"Z": 1}
    warned = mixed(tmp_path, catalogue(sizes), sources={"crawl": "web"}, tiers=tiers, tokens=64_000)[2]
    assert [line.partition(":")[0] for line in warned] == [
        *(f"max_epochs limits crawl/{tier} to 2,560 tokens in the whole training" for tier in "ABC"),
        "because of max_epochs, 4 other groups also get less than the requested share",
    ]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"tokens": 60_000}, "max_epochs limits reference to 15,360 tokens in the whole training: main requests"),
        ({"tokens": 320_000}, "needs more tokens than the caps"),
        ({"tokens": 6400, "sources": {**SOURCES, "wiki": "web"}}, "nothing to draw in the phase main and cooldown"),
        ({"tokens": 40_000, "max_epochs": {"wiki": 0.01}}, "max_epochs limits reference to 0 tokens"),
    ],
)
def test_one_cause_is_told_once_with_what_to_do(tmp_path, asked, told):
    """However many phases and groups it hits: the ratio that does not hold, and the groups that are not drawn."""
    phases = [{"name": "main", "share": 0.75}, {"name": "cooldown"}]
    ratios = {"web": 0.5, "reference": 0.5}
    (warned,) = mixed(tmp_path, catalogue(SIZES), **{"sources": SOURCES, "domains": ratios, "phases": phases, **asked})[
        2
    ]
    assert told in warned
    assert ". " in warned  # the consequence, then what to do


def test_a_plan_shows_ratios_that_do_not_sum_to_1():
    """As they are used."""
    config = mix.Config(recipe="r", sources=SOURCES, domains={"web": 3, "reference": 1})
    assert mix.explain(config) == ["domains web 75.00%, reference 25.00% (the ratios sum to 4 and are divided by it)"]


def test_a_plan_shows_all_that_changes_a_mixture():
    """Tiers, factors and temperature as well as domains, of the whole and of each phase."""
    late = {"name": "late", "domains": {"web": 0, "reference": 1}, "tiers": {"A": 1, "B": 0}}
    phases = [{"name": "main", "share": 0.5, "upsample": {"crawl": 2}}, {"name": "next", "tokens": 5000}, late]
    asked = {"temperature": 2, "tiers": {"A": 4, "B": 0.5}, "phases": phases}
    assert mix.explain(mix.Config(recipe="r", sources=SOURCES, **asked)) == [
        "domains natural",
        "temperature 2",
        "tiers A x4, B x0.5",
        "phase main: share 50.00%; upsample crawl x2",
        "phase next: 5,000 tokens",
        "phase late: the rest; domains web 0.00%, reference 100.00%; tiers A x1, B x0",
    ]


@settings(max_examples=30, deadline=None)
@given(at=st.integers(0, 200), web=st.integers(1, 9))
def test_going_on_keeps_every_sample_before(tmp_path_factory, at, web):
    """At any sample and with other weights: the loader finds no difference, and the caps know what was drawn."""
    folder = tmp_path_factory.mktemp("mix")
    old, _, _ = mixed(folder, catalogue(SIZES), "old.json", **ASKED)
    changed = {
        **ASKED,
        "domains": {"web": web / 10, "reference": 1 - web / 10},
        "tiers": {"A": 4, "B": 1, "C": 1},
        "phases": [{"name": "main"}],
        "tokens": 25_600,
        "continues": {"manifest": str(folder / "old.json"), "at_sample": at},
    }
    new, found, _ = mixed(folder, catalogue({**SIZES, "crawl/C": (64_000, 2)}), "new.json", **changed)
    before, after = (read_manifest(folder / name) for name in ("old.json", "new.json"))
    continues(before, after, at)
    assert [g["name"] for g in new["groups"]] == [*(g["name"] for g in old["groups"]), "crawl/C"]
    assert len({phase["name"] for phase in new["phases"]}) == len(new["phases"])
    assert sum(phase["samples"] for phase in new["phases"][:-1]) == at
    # 400 samples of 64 tokens in all, to within a sample a group.
    assert abs(after.samples - 400) <= 3
    assert all(group["drawn_samples"] <= group["cap_samples"] for group in found["groups"].values())
    counts = dict(zip((group.name for group in after.groups), Order(after).counts(after.samples), strict=True))
    assert {name: group["drawn_samples"] for name, group in found["groups"].items()} == counts


def refused(folder, cataloged, at_sample=100, **changed):
    asked = {**ASKED, "continues": {"manifest": str(folder / "old.json"), "at_sample": at_sample}, **changed}
    with pytest.raises(UserError) as told:
        mixed(folder, cataloged, "new.json", **asked)
    return str(told.value)


def test_going_on_with_other_shards_is_refused(tmp_path):
    """The first difference is named: a group that is gone, a shard that changed, another seed or tokenizer."""
    mixed(tmp_path, catalogue(SIZES), "old.json", **ASKED)
    assert "shard 0 of group crawl/A holds other tokens" in refused(
        tmp_path, catalogue({**SIZES, "crawl/A": (6000, 2)})
    )
    assert "group crawl/A had 2 shards and has 1" in refused(
        tmp_path, {**(whole := catalogue(SIZES)), "outputs": whole["outputs"][:1] + whole["outputs"][2:]}
    )
    assert "samples of the group wiki/A were drawn" in refused(
        tmp_path, catalogue({name: size for name, size in SIZES.items() if name != "wiki/A"})
    )
    assert "seed was 5" in refused(tmp_path, catalogue(SIZES), seed=6)
    assert "seq_len was 64" in refused(tmp_path, catalogue(SIZES, seq_len=32))
    assert "so the trainer cannot be at sample 201" in refused(tmp_path, catalogue(SIZES), at_sample=201)
    other = {"manifest": str(tmp_path / "old.json"), "at_tokens": 100}
    assert "Write at_tokens: 64 or 128" in refused(tmp_path, catalogue(SIZES), continues=other)


def test_a_group_that_was_not_drawn_yet_may_change(tmp_path):
    """At sample 0 everything may."""
    mixed(tmp_path, catalogue(SIZES), "old.json", **ASKED)
    at_start = {"manifest": str(tmp_path / "old.json"), "at_sample": 0}
    new, _, _ = mixed(tmp_path, catalogue({"crawl/A": (64_000, 2)}), "new.json", sources=SOURCES, continues=at_start)
    assert [phase["name"] for phase in new["phases"]] == ["main"]


def test_at_tokens_counts_as_a_trainer_does(tmp_path):
    """Samples times seq_len: both ways of saying it are the same mixture."""
    mixed(tmp_path, catalogue(SIZES), "old.json", **ASKED)
    made = [
        mixed(
            tmp_path,
            catalogue(SIZES),
            "new.json",
            **{**ASKED, "continues": {"manifest": str(tmp_path / "old.json")} | at},
        )[0]
        for at in ({"at_sample": 90}, {"at_tokens": 90 * SEQ_LEN})
    ]
    assert made[0] == made[1]
    assert [phase["name"] for phase in made[0]["phases"]] == ["main", "main_2", "cooldown"]
    assert made[0]["phases"][0]["samples"] == 90


def test_a_manifest_that_was_edited_is_refused_before_any_work(tmp_path):
    """Its hash says so."""
    written, _, _ = mixed(tmp_path, catalogue(SIZES), "old.json", **ASKED)
    written["phases"][0]["weights"]["crawl/A"] += 1
    (tmp_path / "old.json").write_text(json.dumps(written))
    config = mix.Config(recipe="r", sources=SOURCES, continues={"manifest": str(tmp_path / "old.json"), "at_sample": 1})
    with pytest.raises(UserError, match="changed after it was written"):
        mix.check(config)


def test_ten_thousand_shards_and_ten_trillion_tokens(tmp_path):
    """A manifest of that size is written, and every sample of it has its place."""
    sizes = {"crawl/A": (2 * 10**12, 2048), "crawl/B": (7 * 10**12, 8192), "wiki/A": (10**12, 512)}
    written, _, warned = mixed(
        tmp_path, catalogue(sizes, 8192), sources=SOURCES, tokens="10T", domains={"web": 0.8, "reference": 0.2}
    )
    assert sum(len(group["shards"]) for group in written["groups"]) == 10_752
    tokens = {group["name"]: group["tokens"] / group["samples"] for group in written["groups"]}
    drawn = {name: count * tokens[name] for name, count in written["phases"][0]["weights"].items()}
    assert drawn["wiki/A"] == pytest.approx(2 * 10**12, rel=1e-8)
    assert warned == []
