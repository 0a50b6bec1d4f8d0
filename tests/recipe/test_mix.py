"""The field `mix`: the step that it adds, and its mistakes."""

import json
from pathlib import Path

import pytest

from gristmill.errors import UserError
from gristmill.recipe.checks.mistakes import Mistakes
from gristmill.recipe.draft import Draft
from gristmill.recipe.sections.mix import load_mix
from gristmill.recipe.sections.sources import load_source
from gristmill.recipe.yaml.lines import parse
from gristmill.stages.mix import mix

TOP = """recipe: demo
seed: 9
shards: {}
sources:
  crawl: {kind: web, domain: web, tier: {B: "text_bytes > 100", C: else}, read: {format: jsonl, paths: [a.jsonl]}}
  wiki: {kind: text, domain: books, tier: A, read: {format: jsonl, paths: [b.jsonl]}}
"""
"""Six lines: what a case adds begins on line 7."""

CASES = {
    "typo": ("mix:\n  domain: {web: 1}\n", 8, ["mix.domain is not a field", "Did you mean domains?"]),
    "typo in a phase": (
        "mix:\n  phases:\n    - {name: main}\n    - name: late\n      shares: 0.5\n",
        11,
        ["mix.phases[1].shares is not a field", "Did you mean share?"],
    ),
    "a share as a percentage": (
        "mix:\n  phases:\n    - {name: main, share: 90%}\n    - {name: late}\n",
        9,
        ["mix.phases[0].share must be a number, not '90%'. Did you mean 0.9?"],
    ),
    "no word for domains": (
        "mix: {domains: natrual}\n",
        7,
        ["mix.domains must be", "natural, uniform", "Did you mean"],
    ),
    "a domain of no source": (
        "mix:\n  domains:\n    web: 1\n    bokos: 1\n    books: 0\n",
        10,
        ["mix.domains.bokos is the domain of no source", "Did you mean books?"],
    ),
    "a domain without a ratio": ("mix:\n  domains: {web: 1}\n", 8, ["no ratio for the domain 'books'", "books: "]),
    "ratios of 0": ("mix: {domains: {web: 0, books: 0}}\n", 7, ["draws nothing"]),
    "a ratio below 0": ("mix: {domains: {web: -1, books: 1}}\n", 7, ["mix.domains.web must be at least 0"]),
    "a domain of no source in a phase": (
        "mix:\n  phases:\n    - {name: main, domains: {web: 1, bokos: 1, books: 1}}\n",
        9,
        ["mix.phases[0].domains.bokos is the domain of no source"],
    ),
    "temperature with ratios": (
        "mix:\n  domains: uniform\n  temperature: 2\n",
        9,
        ["mix.temperature needs domains: natural"],
    ),
    "a temperature of 0": ("mix: {temperature: 0}\n", 7, ["mix.temperature must be above 0"]),
    "a tier of no source": (
        "mix:\n  tiers: {A: 4, B: 1, C: 1, AA: 3}\n",
        8,
        ["mix.tiers.AA is the tier of no source", "Did you mean A?", "Tiers: B, C, A"],
    ),
    "a tier that is not listed": (
        "mix:\n  tiers: {A: 4, B: 1}\n",
        8,
        ["mix.tiers does not say how often the tier C of the source crawl is drawn", "C: 0 leaves it out"],
    ),
    "a tier that a phase does not list": (
        "mix:\n  tiers: {A: 4, B: 1, C: 1}\n  phases:\n    - {name: main, share: 0.9}\n"
        "    - {name: late, share: 0.1, tiers: {A: 1, B: 0}}\n",
        11,
        ["mix.phases[1].tiers does not say how often the tier C"],
    ),
    "upsampling of no source": (
        "mix:\n  upsample: {wikii: 2}\n",
        8,
        ["mix.upsample.wikii is not a source", "Did you mean wiki?", "Sources: crawl, wiki"],
    ),
    "a cap of nothing": (
        "mix:\n  max_epochs: {crawl/D: 2}\n",
        8,
        ["mix.max_epochs.crawl/D is not a source, group or tier", "crawl/B", "default"],
    ),
    "a cap of 0": ("mix: {max_epochs: 0}\n", 7, ["mix.max_epochs must be above 0"]),
    "a size for a count": ("mix: {tokens: 1MB}\n", 7, ["mix.tokens: '1MB' is not a count", "Did you mean 1M?"]),
    "no count": ("mix: {tokens: 100Q}\n", 7, ["mix.tokens: '100Q' is not a count", "100B"]),
    "half a token": ("mix: {tokens: 1.5}\n", 7, ["mix.tokens: 1.5 is 1.5, but a count is a whole number"]),
    "true is no count": ("mix: {tokens: true}\n", 7, ["mix.tokens must be a number, not true"]),
    "shares over 1": (
        "mix:\n  phases: [{name: a, share: 0.9}, {name: b, share: 0.2}]\n",
        8,
        ["mix.phases: the shares sum to 1.1 instead of 1"],
    ),
    "shares below 1": (
        "mix:\n  phases: [{name: a, share: 0.7}, {name: b, share: 0.2}]\n",
        8,
        ["the shares sum to 0.9 instead of 1", "leave out that of the last phase"],
    ),
    "no rest": ("mix:\n  phases: [{name: a, share: 1}, {name: b}]\n", 8, ["nothing is left for the last phase"]),
    "a phase without a size": (
        "mix:\n  phases:\n    - {name: a}\n    - {name: b, share: 0.5}\n",
        9,
        ["mix.phases[0]: share or tokens is missing", "only the last"],
    ),
    "both sizes": (
        "mix:\n  phases:\n    - {name: a, share: 0.5, tokens: 1B}\n    - {name: b}\n",
        9,
        ["share or tokens, not both"],
    ),
    "two phases of one name": (
        "mix:\n  phases:\n    - {name: a, share: 0.5}\n    - {name: a, share: 0.5}\n",
        10,
        ["an earlier phase is also called a"],
    ),
    "more than the budget": (
        "mix:\n  tokens: 1B\n  phases: [{name: a, tokens: 2B}]\n",
        9,
        ["the phases need 2,000,000,000 tokens, but mix.tokens is 1,000,000,000"],
    ),
    "less than the budget": ("mix:\n  tokens: 3B\n  phases: [{name: a, tokens: 2B}]\n", 9, ["the rest is in no phase"]),
    "nothing left of the budget": (
        "mix:\n  tokens: 2B\n  phases: [{name: a, tokens: 2B}, {name: b}]\n",
        9,
        ["nothing is left for the other phases"],
    ),
    "weights of 0 everywhere": (
        "mix:\n  domains: {web: 1, books: 0}\n  upsample: {crawl: 0}\n",
        7,
        ["mix draws nothing"],
    ),
    "a phase that draws nothing": (
        "mix:\n  domains: {web: 1, books: 0}\n  phases:\n    - {name: a, share: 0.5}\n"
        "    - {name: b, tiers: {A: 1, B: 0, C: 0}}\n",
        11,
        ["mix.phases[1] draws nothing"],
    ),
    "no such manifest": (
        "mix: {continues: {manifest: no.json, at_sample: 3}}\n",
        7,
        ["mix.continues.manifest", "does not exist"],
    ),
    "no place to go on from": (
        "mix: {continues: {manifest: in.json}}\n",
        7,
        ["at_sample or at_tokens", "exactly one of them"],
    ),
    "a rate that is not constant": (
        "mix: {phases: [{name: a, learning_rate: {shape: constant, end: 0}}]}\n",
        7,
        ["a constant rate cannot go from 1 to 0"],
    ),
    "a name that is no name": (
        "mix: {phases: [{name: a/b}]}\n",
        7,
        ["mix.phases[0].name: 'a/b' is not allowed. Use up to 100 of A-Z a-z 0-9"],
    ),
}


def loaded(folder: Path, text: str):
    """The step of a recipe's mix; raises UserError with the mistakes."""
    (folder / "in.json").write_text("{}")
    mistakes = Mistakes("r.yaml")
    tree = parse(text, {}, mistakes)
    draft = Draft(tree, mistakes, str(folder), seed=9)
    sources = {name: load_source(draft, name, fields) for name, fields in tree.value["sources"].items()}
    known = {name: source for name, source in sources.items() if source}
    steps = load_mix(draft, tree.value.get("mix"), "demo", known, is_sample=False, named=False)
    mistakes.raise_any()
    return steps


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_reported_once_with_its_line_and_its_fix(case, tmp_path):
    """Every mistake in the field, in one message."""
    text, line, fragments = CASES[case]
    with pytest.raises(UserError) as reported:
        loaded(tmp_path, TOP + text)
    message = str(reported.value)
    assert message.startswith(f"r.yaml:{line}: "), message
    assert "\n" not in message, message
    for fragment in fragments:
        assert fragment in message


@pytest.mark.parametrize("mixture", ["{domains: uniform}", "{temperature: 3}", "{domains: {web: 1}}"])
def test_a_source_without_a_domain_is_reported_if_domains_count(mixture, tmp_path):
    """At the source; if domains do not count, no source needs one."""
    top = TOP.replace("domain: books, ", "")
    with pytest.raises(UserError, match=r"r\.yaml:6: sources\.wiki has no domain, but mix.* Add domain: to it"):
        loaded(tmp_path, top + f"mix: {mixture}\n")
    (step,) = loaded(tmp_path, top + "mix: {tokens: 1B}\n")
    assert step.config.sources == {"crawl": "web", "wiki": None}


def test_a_source_without_a_tier_is_reported_if_tiers_count(tmp_path):
    """A cooldown that only draws the best tiers must know the tier of every source."""
    with pytest.raises(UserError, match=r"r\.yaml:6: sources\.wiki has no tier.* Add tier: to it"):
        loaded(tmp_path, TOP.replace("tier: A, ", "") + "mix: {tiers: {B: 1, C: 0}}\n")


BY_COLUMN = TOP.replace("domain: web, ", "domain: {column: language_hint}, ").replace(
    'tier: {B: "text_bytes > 100", C: else}', "tier: {column: snapshot, default: B}"
)


def test_domains_and_tiers_of_a_column_are_known_to_the_run_alone(tmp_path):
    """Any name may have a ratio or a cap; documents without a value are of the source's name, or of the default."""
    settings = "domains: {en: 2, de: 1, books: 1}, tiers: {old: 0, new: 1, A: 1, B: 1}, max_epochs: {crawl+en: 2}"
    (step,) = loaded(tmp_path, f"{BY_COLUMN}mix: {{{settings}}}\n")
    assert step.config.sources == {"crawl": "crawl", "wiki": "books"}
    with pytest.raises(UserError, match="no ratio for the domain 'books'"):
        loaded(tmp_path, f"{BY_COLUMN}mix: {{domains: {{en: 1}}}}\n")
    with pytest.raises(UserError, match="draws nothing"):
        loaded(tmp_path, f"{BY_COLUMN}mix: {{domains: {{en: 0, books: 0}}}}\n")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("domain: {colum: url}", "a domain is a name, or {column: language.label, default: NAME}"),
        ("domain: {column: text_bytes + 1}", "'text_bytes + 1' is not the name of a column"),
        ("tier: {column: url, default: a/b}", "'a/b' cannot be the name of a tier"),
    ],
)
def test_a_column_that_is_written_wrongly_is_refused(written, message, tmp_path):
    """The message shows the correct form."""
    field = written.partition(":")[0]
    was = "domain: books" if field == "domain" else "tier: A"
    with pytest.raises(UserError) as found:
        loaded(tmp_path, TOP.replace(was, written))
    assert message in str(found.value)


@pytest.mark.parametrize("field", ["tier", "domain"])
def test_a_missing_field_of_a_source_is_reported_once(field, tmp_path):
    """However many fields of the mix and its phases need it."""
    ratios, lacking = {
        "tier": ("tiers: {B: 1, C: 1}", "tier: A, "),
        "domain": ("domains: {web: 1}", "domain: books, "),
    }[field]
    phases = f"    - {{name: main, share: 0.5, {ratios}}}\n    - {{name: late, {ratios}}}\n"
    with pytest.raises(UserError) as reported:
        loaded(tmp_path, TOP.replace(lacking, "") + f"mix:\n  {ratios}\n  phases:\n{phases}")
    assert str(reported.value).count(f"sources.wiki has no {field}") == 1


def test_a_name_that_is_a_source_and_a_tier_is_no_cap(tmp_path):
    """It would be ambiguous."""
    top = TOP.replace("tier: A", "tier: crawl")
    with pytest.raises(UserError, match=r"max_epochs\.crawl is both a source and a tier.*crawl/B, crawl/C, wiki/crawl"):
        loaded(tmp_path, top + "mix: {max_epochs: {crawl: 2}}\n")


def test_a_mix_without_shards_is_a_mistake(tmp_path):
    """There is nothing to draw from."""
    with pytest.raises(UserError, match=r"r\.yaml:6: mix draws from shards, but the recipe makes none"):
        loaded(tmp_path, TOP.replace("shards: {}\n", "") + "mix: {}\n")


def test_a_source_with_a_mistake_gives_no_second_one_about_its_tier(tmp_path):
    """Its tier is unknown."""
    with pytest.raises(UserError) as reported:
        loaded(tmp_path, TOP.replace("kind: text, ", "") + "mix: {tiers: {B: 1, C: 1}, domains: {web: 1}}\n")
    assert "\n" not in str(reported.value)


def test_the_step_knows_recipe_seed_and_domains(tmp_path, monkeypatch):
    """And all options, with the location of the earlier manifest."""
    (tmp_path / "old.json").write_text(json.dumps({}))
    monkeypatch.setattr(mix, "read_manifest", lambda location: {})
    text = """mix:
  domains: {web: 0.62, books: 0.38}
  tiers: {A: 4, B: 1, C: 0.5}
  upsample: {wiki: 2}
  tokens: 1.5T
  max_epochs: {crawl/B@2: 1, wiki: 3, C: 0.5, default: 4}
  phases:
    - {name: main, share: 0.88}
    - {name: cooldown, share: 0.12, tiers: {A: 6, B: 1, C: 0}, learning_rate: {shape: linear}}
  continues: {manifest: old.json, at_tokens: 2e6}
"""
    (step,) = loaded(tmp_path, TOP + text)
    assert (step.id, step.name, step.module, step.line) == ("all/mix", "mix", "gristmill.stages.mix.mix", 11)
    assert step.config == mix.Config(
        recipe="demo",
        seed=9,
        sources={"crawl": "web", "wiki": "books"},
        domains={"web": 0.62, "books": 0.38},
        tiers={"A": 4, "B": 1, "C": 0.5},
        upsample={"wiki": 2},
        tokens=1_500_000_000_000,
        max_epochs={"crawl/B@2": 1, "wiki": 3, "C": 0.5, "default": 4},
        phases=[
            {"name": "main", "share": 0.88},
            {
                "name": "cooldown",
                "share": 0.12,
                "tiers": {"A": 6, "B": 1, "C": 0},
                "learning_rate": {"shape": "linear"},
            },
        ],
        continues={"manifest": str(tmp_path / "old.json"), "at_tokens": 2_000_000},
    )


def test_an_empty_mix_and_no_mix(tmp_path):
    """An empty mix draws everything once; a recipe without the field has no additional step."""
    (step,) = loaded(tmp_path, TOP + "mix: {seed: 3}\n")
    assert (step.config.domains, step.config.max_epochs, step.config.seed) == ("natural", 4, 3)
    assert loaded(tmp_path, TOP) == ()


def test_a_tier_more_than_there_are_is_left_to_the_run():
    """A name that is unlike any other is not a typo; it has no effect, and the run warns about it."""
    config = mix.Config(recipe="r", sources={"crawl": "web"}, tiers={"B": 1, "C": 0.5})
    found = {
        "groups": {"crawl/B": {"samples": 3, "tokens": 9}},
        "at_caps": {"main": {}},
        "empty_domains": {},
        "phases": {"main": {"domains": {}, "tokens": 1}},
    }
    assert any("the mix lists the tier C" in warned for warned in mix.warnings(found, config))
