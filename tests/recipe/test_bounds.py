"""Recipes that exceed a limit: numbers that do not fit, nesting, aliases, merges, endless lists."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill.cli.run.steps import HEAD
from gristmill.errors import UserError
from gristmill.recipe.checks.mistakes import MOST_FOUND
from gristmill.recipe.load import load
from gristmill.recipe.model import Recipe
from gristmill.recipe.sections.snapshot import check_snapshot, search
from gristmill.recipe.settings import all_entries
from gristmill.stages.config_types import MOST_BYTES, SIZE_UNITS, parse_bytes, parse_count
from gristmill.stages.dedup import line_counts, near_candidates
from gristmill.stages.extract import extract
from gristmill.stages.mix import options as requests
from gristmill.stages.select.rules import gopher_quality
from gristmill.stages.tokenizer import tokenizer

TOP = "recipe: demo\nseed: 1\nsources:\n  a: {kind: web, read: {format: jsonl, paths: [a.txt]}}\nsteps: [near_dedup]\n"


@pytest.fixture
def text_shown(tmp_path: Path) -> Callable[[str], str]:
    """The message for a recipe that is refused."""

    def refuse(text: str) -> str:
        path = tmp_path / "r.yaml"
        path.write_text(text)
        with pytest.raises(UserError) as caught:
            load(path)
        return str(caught.value)

    return refuse


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[[str], Recipe]:
    def make(text: str) -> Recipe:
        (tmp_path / "r.yaml").write_text(text)
        return load(tmp_path / "r.yaml")

    return make


@pytest.mark.parametrize(
    "number", ["9" * 4000, "9" * 20, "-" + "9" * 20, "0x" + "f" * 3000, "0o" + "7" * 3000, str(2**63)]
)
def test_a_whole_number_that_nothing_can_hold_is_one_message(text_shown: Callable[[str], str], number: str) -> None:
    """With the line, in every notation; a number of 4,000 digits is not printed."""
    message = text_shown(TOP.replace("seed: 1", f"seed: {number}"))
    assert message.count("\n") == 0
    assert ":2: seed is a whole number of" in message
    assert len(message) < 400


@pytest.mark.parametrize("number", ["9" * 5000, "1e400", "1.5", "-1", ".inf", ".nan", "true", "2**3"])
def test_an_invalid_seed_is_one_message(text_shown: Callable[[str], str], number: str) -> None:
    """This holds for any invalid value."""
    message = text_shown(TOP.replace("seed: 1", f"seed: {number}"))
    assert ":2: seed" in message
    assert len(message) < 400


def test_the_largest_seed_is_a_seed(loaded: Callable[[str], Recipe]) -> None:
    """2^63 - 1, for the recipe and for a step."""
    assert loaded(TOP.replace("seed: 1", f"seed: {2**63 - 1}")).seed == 2**63 - 1
    assert loaded(TOP.replace("[near_dedup]", f"[near_dedup: {{seed: {2**63 - 1}}}]")).steps


@pytest.mark.parametrize(
    ("field", "fact"),
    [
        ("seed: -1", "seed must be at least 0"),
        ("seed: 99999999999999999999", "whole number of 20 digits"),
        ("max_bucket: 1000000000", "at most 100000"),
        ("verify_jaccard: .inf", "not inf"),
        ("verify_jaccard: -.inf", "verify_jaccard"),
        ("verify_jaccard: .nan", "nan"),
    ],
)
def test_numbers_of_steps_are_within_the_bounds_of_their_kernels(
    text_shown: Callable[[str], str], field: str, fact: str
) -> None:
    """A negative seed, a huge bucket, infinity: reported with the line of the step."""
    message = text_shown(TOP.replace("[near_dedup]", f"\n  - near_dedup: {{{field}}}"))
    assert fact in message
    assert ":6:" in message


@pytest.mark.parametrize("size", ["9" * 400 + "TB", "9" * 400, "99999999999TB", str(2**60 + 1), "-1"])
def test_sizes_that_nothing_can_hold_are_refused(text_shown: Callable[[str], str], size: str) -> None:
    """A size of 400 digits is infinity as a float, and no buffer can have that size."""
    message = text_shown(TOP.replace("[a.txt]", f"[a.txt], max_record_bytes: {size}"))
    assert "max_record_bytes" in message


def test_sizes_and_counts_are_read_as_before() -> None:
    """With units and with spaces around them; anything else is refused."""
    assert [parse_bytes(text) for text in ("64MB", " 1.5 GiB ", "7", "1EB"[:1])] == [64_000_000, 3 << 29, 7, 1]
    assert parse_bytes("9" * 400) == MOST_BYTES + 1
    assert [parse_count(text) for text in ("100B", " 1.5 T ", "2e9", "1_000")] == [10**11, 15 * 10**11, 2 * 10**9, 1000]
    for text in ("1" + " " * 1000 + "!", "x", "1 MBB", ""):
        with pytest.raises(ValueError, match="is not a size"):
            parse_bytes(text)
        with pytest.raises(ValueError, match="is not a count"):
            parse_count(text)


@pytest.mark.parametrize(
    ("size", "meant"),
    [("5 Mb", "5MB"), ("5mb", "5MB"), ("1.5gib", "1.5GiB"), ("64M", "64MB"), ("2 Gi", "2GiB"), ("1Kb", "1KB")],
)
def test_a_misspelled_unit_is_refused_with_the_right_one(text_shown, size: str, meant: str) -> None:
    """Megabits are not megabytes; every size in a recipe is checked the same way."""
    with pytest.raises(ValueError, match=f"is not a size; .* B, KB, .* TiB. Did you mean {meant}[?]$"):
        parse_bytes(size)
    message = text_shown(TOP.replace("[a.txt]", f"[a.txt], part_bytes: {size}"))
    assert message.endswith(f"Did you mean {meant}?")


def test_every_setting_of_bytes_is_a_size_and_every_unit_is_documented() -> None:
    """No config has its own parser, and the documentation lists all units."""
    sizes = [one for entry in all_entries() for one in entry.settings if one.name.endswith("bytes")]
    assert len(sizes) > 10
    assert all("bytes (64MB, 1GiB)" in one.type for one in sizes), sizes
    assert [unit for unit in SIZE_UNITS if not re.search(rf"\b{unit}\b", HEAD)] == []


def test_every_number_that_may_be_large_takes_a_k() -> None:
    """`1k` is a thousand in every setting. A seed, a port and a score are not counts."""
    numbers = [one for entry in all_entries() for one in entry.settings if one.type.startswith("whole number")]
    small = [one for one in numbers if re.search(r" to \d{1,3}$", one.type)]
    assert {one.name for one in numbers if one not in small} == {"seed", "port", "min_score"}


def test_merges_of_merges_are_bounded(text_shown: Callable[[str], str]) -> None:
    """Thirty lines that each merge the line above twice would be a billion values."""
    lines = "".join(f"m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}], k{n}: 1}}\n" for n in range(1, 30))
    assert "is not a field" in text_shown(TOP + "m0: &m0 {k: 1}\n" + lines)
    wide = "a: &a {" + ", ".join(f"k{n}: 1" for n in range(300)) + "}\n"
    many = "b: {<<: [" + ", ".join(["{<<: *a}"] * 50) + "]}\n"
    assert "merge keys add more than" in text_shown(TOP + wide + many)


def test_a_merged_mapping_keeps_its_values(loaded: Callable[[str], Recipe]) -> None:
    """A mapping that several others merge is read once and given to each."""
    text = "recipe: demo\nsources:\n  a: &a {kind: web, read: &r {format: jsonl, paths: [a.txt]}}\n"
    text += "  b: {<<: *a, kind: text}\n  c: {<<: [{license: MIT}, *a]}\n  d: {read: {<<: *r, paths: [d]}, kind: web}\n"
    recipe = loaded(text + "steps: []\n")
    assert [(s.kind, s.license, s.paths[0][-5:]) for s in recipe.sources.values()][1:3] == [
        ("text", None, "a.txt"),
        ("web", "MIT", "a.txt"),
    ]
    assert recipe.sources["d"].paths[0].endswith("/d")


@pytest.mark.parametrize("text", ["[" * 500, "{a: " * 500, "- " * 500, "? " * 500, "a:\n" + " " * 2 + "- " * 100 + "x"])
def test_nesting_is_bounded(text_shown: Callable[[str], str], text: str) -> None:
    """Brackets and indents."""
    assert "more than 50 levels deep" in text_shown(TOP + "x: " + text if text[0] in "[{" else text)


def test_nesting_through_aliases_is_bounded(text_shown: Callable[[str], str]) -> None:
    """A chain of lists, each in the next."""
    lines = "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 90))
    assert "levels deep here, through an alias" in text_shown(TOP + "a0: &a0 [x]\n" + lines)


def test_loading_stops_after_many_mistakes(text_shown: Callable[[str], str]) -> None:
    """The first mistakes are shown, and that there are more."""
    message = text_shown(TOP.replace("[a.txt]", "[" + "1, " * 5000 + "x]"))
    assert message.count("\n") == 20
    assert f"at least {MOST_FOUND - 20} more" in message


def test_steps_times_sources_are_bounded(text_shown: Callable[[str], str]) -> None:
    """Every source goes through its steps, and all of that is checked."""
    sources = "".join(f"  s{n}: {{kind: web, read: {{format: jsonl, paths: [a]}}}}\n" for n in range(300))
    steps = "steps:\n" + "  - exact_dedup\n" * 100
    assert "steps for 301 sources" in text_shown(TOP.replace("steps: [near_dedup]\n", sources + steps))
    assert "1,500 steps" in text_shown(TOP.replace("steps: [near_dedup]", "steps:\n" + "  - exact_dedup\n" * 1500))


def test_equal_steps_have_numbers(loaded: Callable[[str], Recipe], text_shown: Callable[[str], str]) -> None:
    """The second step with a name gets _2, and so on, even if that name is taken."""
    recipe = loaded(TOP.replace("[near_dedup]", "[exact_dedup, extract, exact_dedup: {scope: source}, exact_dedup]"))
    ids = [step.id for step in recipe.steps if step.name == "exact_dedup"]
    assert ids == ["all/exact_dedup", "all/exact_dedup_2", "all/exact_dedup_3"]


def test_a_snapshot_is_found_as_by_python() -> None:
    """The snapshot is what the group matches in the first match, wherever there are parentheses that are not groups."""
    for expression, path, expected in (
        ("crawl/([^/]+)/", "/x/crawl/2024-10/a.gz", "2024-10"),
        (r"\((\d+)\)[(]", "/x(7)(", "7"),
        ("(?:a|b)/(?P<year>[0-9]{4})", "/b/2024", "2024"),
        ("[]()]([a-z]+)", "/)abc", "abc"),
        ("/([^/]+)/[^/]+$", "/a/b/c.gz", "b"),
        ("/(x)/", "/a/b/c.gz", None),
        ("/(.+)/", "/\udcff/", "\ufffd"),
        ("/([[:digit:]]+)/", "/a/2024/", "2024"),
    ):
        assert check_snapshot(expression) == expression
        assert search(expression, [path, path]) == [expected, expected]


def test_a_snapshot_takes_no_longer_than_its_path() -> None:
    """An expression that is exponential in Python's engine is fast; what only such an engine can read is refused."""
    assert search("(?:a+)+(b)$", ["a" * 4000]) == [None]
    for expression in ("(?=x)(a)", r"(a)\1", "(?<=x)(a)"):
        with pytest.raises(ValueError, match="linear time"):
            check_snapshot(expression)
    with pytest.raises(ValueError, match="more than 1000"):
        check_snapshot("(" + "a" * 2000 + ")")


def test_numbers_that_are_large_may_be_written_short() -> None:
    """This works in every step that counts documents, words, samples or entries."""
    assert tokenizer.Config.model_validate({"vocab": "4k"}) == tokenizer.Config(vocab=4000)
    assert requests.Continues.model_validate({"manifest": "m.json", "at_sample": "1M"}).at_sample == 10**6
    assert gopher_quality.Config.model_validate({"max_words": "100k", "min_words": 0}).max_words == 100_000
    assert line_counts.Config.model_validate({"bucket_documents": "5M"}).bucket_documents == 5 * 10**6
    assert near_candidates.Config.model_validate({"max_bucket": "2k"}).max_bucket == 2000
    assert extract.Config.model_validate({"max_nodes": "50k"}).max_nodes == 50_000
    for text in ("1MB", "1 mb", "1MiB"):
        with pytest.raises(ValueError, match=r"is not a count.* Did you mean 1M\?$"):
            parse_count(text)
