"""The stage: manifests that the loader reads and that continue earlier ones, and warnings about unmet options."""

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
OPTIONS = {
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
    written, _, _ = mixed(tmp_path, catalogue(SIZES), **OPTIONS)
    read = read_manifest(tmp_path / "manifest.json")
    assert read.samples == sum(phase["samples"] for phase in written["phases"]) == 200
    assert [group.name for group in read.groups] == sorted(SIZES)
    assert (read.seq_len, read.token_bytes, read.seed, read.recipe) == (SEQ_LEN, 2, 5, "toy")
    assert [len(group.shards) for group in read.groups] == [2, 4, 1, 1]
    assert {group["domain"] for group in written["groups"]} == {"web", "reference"}
    assert [group["weight"] for group in written["groups"]] == [1.0, 1.0, 1.0, 2.0]
    assert read.phases[1].learning_rate == {"shape": "sqrt", "start": 1.0, "end": 0.0}
    assert written["files"] == {}


def test_the_loader_draws_the_weights_of_every_phase(tmp_path):
    """The loader's own count of a phase is that of the plan, and the cooldown has only its tiers."""
    written, _, _ = mixed(tmp_path, catalogue(SIZES), **OPTIONS)
    read = read_manifest(tmp_path / "manifest.json")
    main, cooldown = written["phases"]
    counts = Order(read).counts(main["samples"])
    assert {g.name: int(n) for g, n in zip(read.groups, counts, strict=True) if n} == main["weights"]
    assert set(cooldown["weights"]) == {"crawl/A", "wiki/A", "wiki/A@2"}


def test_the_order_of_the_catalogue_changes_no_byte(tmp_path):
    """Neither the order of groups nor that of shards matters."""
    found = catalogue(SIZES)
    mixed(tmp_path, found, **OPTIONS)
    first = (tmp_path / "manifest.json").read_bytes()
    random.Random(1).shuffle(found["outputs"])
    mixed(tmp_path, found, **OPTIONS)
    assert (tmp_path / "manifest.json").read_bytes() == first


def test_groups_without_a_sample_are_left_out(tmp_path):
    """An empty group has no density; an empty shard of a group with other shards stays."""
    found = catalogue({**SIZES, "crawl/C": (0, 1), "wiki/B": (1, 2)})
    written, _, _ = mixed(tmp_path, found, sources=SOURCES)
    shards = {group["name"]: len(group["shards"]) for group in written["groups"]}
    assert shards == {"crawl/A": 2, "crawl/B": 4, "wiki/A": 1, "wiki/A@2": 1, "wiki/B": 2}


def test_metrics_are_counts_that_sum(tmp_path):
    """Every leaf is a whole number, which the engine adds up."""
    _, found, _ = mixed(tmp_path, catalogue(SIZES), **OPTIONS)

    def leaves(value):
        return [leaf for inner in value.values() for leaf in leaves(inner)] if isinstance(value, dict) else [value]

    assert all(type(leaf) is int for leaf in leaves(found))
    domains = found["phases"]["main"]["domains"]
    assert sum(domain["target"] for domain in domains.values()) == pytest.approx(10**9, abs=10)
    assert sum(domain["tokens"] for domain in domains.values()) == found["phases"]["main"]["tokens"]


def test_a_mixture_that_meets_its_options_has_no_warning(tmp_path):
    """A warning that is always there would not be read."""
    assert mixed(tmp_path, catalogue(SIZES), **OPTIONS)[2] == []


@pytest.mark.parametrize(
    ("options", "expected"),
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
def test_an_option_that_is_not_met_is_a_warning(tmp_path, options, expected):
    """The warning has the option and the cause."""
    warned = "\n".join(mixed(tmp_path, catalogue(SIZES), **{**OPTIONS, **options})[2])
    for words in expected:
        assert words in warned


def test_a_group_above_its_cap_is_one_warning_with_the_excess(tmp_path):
    """The largest excess is shown, even if several phases exceed the cap."""
    phases = [{"name": "one", "tokens": 12_800}, {"name": "other", "tokens": 6400}]
    options = {"sources": {"crawl": "web"}, "max_epochs": 1, "phases": phases}
    warned = mixed(tmp_path, catalogue({"crawl": (6400, 1)}), **options)[2]
    assert len(warned) == 1
    assert "groups exceed their caps: crawl by 2.00 epochs (12,800 tokens). Training" in warned[0]


def test_a_phase_that_gets_nothing_of_a_group_is_a_warning_even_above_the_caps(tmp_path):
    """The cooldown needs more of A than there is, so it exceeds the cap, and main gets nothing of A."""
    phases = [{"name": "main", "share": 0.5}, {"name": "cooldown", "tiers": {"A": 1, "B": 0}}]
    options = {"sources": SOURCES, "tiers": {"A": 4, "B": 1}, "phases": phases, "tokens": 64_000}
    over, none = mixed(tmp_path, catalogue({"crawl/A": (6400, 1), "crawl/B": (64_000, 4)}), **options)[2][:2]
    assert "crawl/A by 1.00 epochs" in over
    assert "main requests 9,142 tokens (28.6%) and gets 0 (0.0%), cooldown requests 32,000 tokens" in none


def test_many_short_groups_are_few_warnings(tmp_path):
    """Three groups have their numbers; the others are counted."""
    sizes = {f"crawl/{tier}": (640, 1) for tier in "ABCDEFG"} | {"crawl/Z": (64_000, 1)}
    tiers = dict.fromkeys("ABCDEFG", 9) | {"Z": 1}
    warned = mixed(tmp_path, catalogue(sizes), sources={"crawl": "web"}, tiers=tiers, tokens=64_000)[2]
    assert [line.partition(":")[0] for line in warned] == [
        *(f"max_epochs limits crawl/{tier} to 2,560 tokens in the whole training" for tier in "ABC"),
        "because of max_epochs, 4 other groups also get less than the requested share",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tokens": 60_000}, "max_epochs limits reference to 15,360 tokens in the whole training: main requests"),
        ({"tokens": 320_000}, "needs more tokens than the caps"),
        ({"tokens": 6400, "sources": {**SOURCES, "wiki": "web"}}, "nothing to draw in the phase main and cooldown"),
        ({"tokens": 40_000, "max_epochs": {"wiki": 0.01}}, "max_epochs limits reference to 0 tokens"),
    ],
)
def test_one_cause_is_one_warning_with_the_fix(tmp_path, options, expected):
    """One warning covers all phases and groups: the ratio that does not hold, and the groups that are not drawn."""
    phases = [{"name": "main", "share": 0.75}, {"name": "cooldown"}]
    ratios = {"web": 0.5, "reference": 0.5}
    (warned,) = mixed(
        tmp_path, catalogue(SIZES), **{"sources": SOURCES, "domains": ratios, "phases": phases, **options}
    )[2]
    assert expected in warned
    assert ". " in warned  # the consequence, then what to do


def test_a_plan_shows_ratios_that_do_not_sum_to_1():
    """It shows them normalized."""
    config = mix.Config(recipe="r", sources=SOURCES, domains={"web": 3, "reference": 1})
    assert mix.explain(config) == ["domains web 75.00%, reference 25.00% (the ratios sum to 4 and are divided by it)"]


def test_a_plan_shows_all_settings_of_a_mixture():
    """Tiers, factors and temperature as well as domains, of the whole and of each phase."""
    late = {"name": "late", "domains": {"web": 0, "reference": 1}, "tiers": {"A": 1, "B": 0}}
    phases = [{"name": "main", "share": 0.5, "upsample": {"crawl": 2}}, {"name": "next", "tokens": 5000}, late]
    options = {"temperature": 2, "tiers": {"A": 4, "B": 0.5}, "phases": phases}
    assert mix.explain(mix.Config(recipe="r", sources=SOURCES, **options)) == [
        "domains natural",
        "temperature 2",
        "tiers A x4, B x0.5",
        "phase main: share 50.00%; upsample crawl x2",
        "phase next: 5,000 tokens",
        "phase late: the rest; domains web 0.00%, reference 100.00%; tiers A x1, B x0",
    ]


@settings(max_examples=30, deadline=None)
@given(at=st.integers(0, 200), web=st.integers(1, 9))
def test_continuing_keeps_every_earlier_sample(tmp_path_factory, at, web):
    """At any sample and with other weights, the loader finds no difference, and the caps include what was drawn."""
    folder = tmp_path_factory.mktemp("mix")
    old, _, _ = mixed(folder, catalogue(SIZES), "old.json", **OPTIONS)
    changed = {
        **OPTIONS,
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
    options = {**OPTIONS, "continues": {"manifest": str(folder / "old.json"), "at_sample": at_sample}, **changed}
    with pytest.raises(UserError) as raised:
        mixed(folder, cataloged, "new.json", **options)
    return str(raised.value)


def test_continuing_with_other_shards_is_refused(tmp_path):
    """The first difference is named: a missing group, a changed shard, another seed or tokenizer."""
    mixed(tmp_path, catalogue(SIZES), "old.json", **OPTIONS)
    assert "shard 0 of group crawl/A has other tokens" in refused(tmp_path, catalogue({**SIZES, "crawl/A": (6000, 2)}))
    assert "group crawl/A had 2 shards and now has 1" in refused(
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
    """At sample 0 every group may change."""
    mixed(tmp_path, catalogue(SIZES), "old.json", **OPTIONS)
    at_start = {"manifest": str(tmp_path / "old.json"), "at_sample": 0}
    new, _, _ = mixed(tmp_path, catalogue({"crawl/A": (64_000, 2)}), "new.json", sources=SOURCES, continues=at_start)
    assert [phase["name"] for phase in new["phases"]] == ["main"]


def test_at_tokens_counts_as_a_trainer_does(tmp_path):
    """at_tokens is samples times seq_len; both settings give the same mixture."""
    mixed(tmp_path, catalogue(SIZES), "old.json", **OPTIONS)
    made = [
        mixed(
            tmp_path,
            catalogue(SIZES),
            "new.json",
            **{**OPTIONS, "continues": {"manifest": str(tmp_path / "old.json")} | at},
        )[0]
        for at in ({"at_sample": 90}, {"at_tokens": 90 * SEQ_LEN})
    ]
    assert made[0] == made[1]
    assert [phase["name"] for phase in made[0]["phases"]] == ["main", "main_2", "cooldown"]
    assert made[0]["phases"][0]["samples"] == 90


def test_a_manifest_that_was_edited_is_refused_before_any_work(tmp_path):
    """Its hash does not match."""
    written, _, _ = mixed(tmp_path, catalogue(SIZES), "old.json", **OPTIONS)
    written["phases"][0]["weights"]["crawl/A"] += 1
    (tmp_path / "old.json").write_text(json.dumps(written))
    config = mix.Config(recipe="r", sources=SOURCES, continues={"manifest": str(tmp_path / "old.json"), "at_sample": 1})
    with pytest.raises(UserError, match="changed after it was written"):
        mix.check(config)


def test_ten_thousand_shards_and_ten_trillion_tokens(tmp_path):
    """A manifest of that size is written, and every sample has its position."""
    sizes = {"crawl/A": (2 * 10**12, 2048), "crawl/B": (7 * 10**12, 8192), "wiki/A": (10**12, 512)}
    written, _, warned = mixed(
        tmp_path, catalogue(sizes, 8192), sources=SOURCES, tokens="10T", domains={"web": 0.8, "reference": 0.2}
    )
    assert sum(len(group["shards"]) for group in written["groups"]) == 10_752
    tokens = {group["name"]: group["tokens"] / group["samples"] for group in written["groups"]}
    drawn = {name: count * tokens[name] for name, count in written["phases"][0]["weights"].items()}
    assert drawn["wiki/A"] == pytest.approx(2 * 10**12, rel=1e-8)
    assert warned == []
