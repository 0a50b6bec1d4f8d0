"""The field `shards`, and tiers and weights of sources: the steps that they add, and their mistakes."""

import pytest

from gristmill.errors import UserError
from gristmill.recipe.load import load

TOP = """recipe: small
sources:
  a: {kind: text, read: {format: jsonl, paths: [a.jsonl]}, domain: web%s}
  b: {kind: text, read: {format: jsonl, paths: [b.jsonl]}, domain: books}
steps: []
"""
TOKENIZER = "tokenizer: {train: {sample_bytes: {web: 1MB, books: 1MB}}}\n"


def loaded(tmp_path, text):
    (tmp_path / "recipe.yaml").write_text(text)
    return load(tmp_path / "recipe.yaml")


def test_shards_add_steps_after_the_tokenizer(tmp_path):
    """Every source has its own groups between the same tokens and the same shards; the mixture comes last."""
    recipe = loaded(tmp_path, TOP % "" + TOKENIZER + "shards: {}\n")
    assert [step.id for step in recipe.routes["a"]][-4:] == ["all/tokens", "a/shard_groups", "all/shards", "all/mix"]
    assert [step.id for step in recipe.routes["b"]][-4:] == ["all/tokens", "b/shard_groups", "all/shards", "all/mix"]
    assert len({step.id for step in recipe.steps}) == len(recipe.steps)


def test_tiers_and_weights_reach_the_groups(tmp_path):
    """In the order of the recipe; levels only if there is a weight."""
    tier = ", tier: {B: 'text_bytes > 9', A: else}, weight: text_bytes / 100"
    recipe = loaded(tmp_path, TOP % tier + TOKENIZER + "shards: {weight_levels: [1, 3]}\n")
    groups = {step.id: step.config for step in recipe.steps if step.name == "shard_groups"}
    assert groups["a/shard_groups"].tiers == (("B", "text_bytes > 9"), ("A", "else"))
    assert groups["a/shard_groups"].weight_levels == (1, 3)
    assert groups["b/shard_groups"].weight_levels == ()


def test_counts_may_have_a_unit(tmp_path):
    """64M is 64,000,000."""
    recipe = loaded(tmp_path, TOP % "" + TOKENIZER + "shards: {shard_tokens: 64M}\n")
    assert next(step for step in recipe.steps if step.name == "shards").config.shard_tokens == 64_000_000


CASES = {
    "no tokenizer": ("", "shards: {}\n", 6, "the recipe has no tokenizer"),
    "a field that is not there": ("", TOKENIZER + "shards: {sequence: 1k}\n", 7, "sidecars, seed, weight_levels."),
    "a typo": ("", TOKENIZER + "shards: {seq_len: 512}\n", 7, "Did you mean seq_len_tokens?"),
    "a packing that is not there": ("", TOKENIZER + "shards: {pack: bestfit}\n", 7, "Did you mean best_fit?"),
    "levels that fall": ("", TOKENIZER + "shards: {weight_levels: [2, 1]}\n", 7, "levels must rise"),
    "a tier that no file can be named by": (
        ", tier: a/b",
        TOKENIZER + "shards: {}\n",
        3,
        "cannot be the name of a tier",
    ),
    "tiers without a rest": (", tier: {A: 'text_bytes > 3'}", TOKENIZER + "shards: {}\n", 3, "C: else"),
    "half a condition": (", tier: {A: 'text_bytes >', B: else}", TOKENIZER + "shards: {}\n", 3, "found the end"),
    "a column that is not there": (
        ", tier: {A: 'text_byte > 3', B: else}",
        TOKENIZER + "shards: {}\n",
        3,
        "Did you mean text_bytes?",
    ),
    "a column that its step does not write, some lines below its source": (
        ",\n    tier:\n      {A: signals.wrods > 400,\n       B: else}",
        TOKENIZER.replace("tokenizer", "steps: [signals]\ntokenizer") + "shards: {}\n",
        5,
        "sources.a.tier.A reads the column wrods, which signals does not write. Did you mean words?",
    ),
    "a weight of a step that is not there": (
        ",\n    weight: exact_dedup.dup_count",
        TOKENIZER + "shards: {}\n",
        4,
        "sources.a.weight reads exact_dedup.dup_count, but no step exact_dedup comes before it.",
    ),
    "a column that is not there, before there are shards": (
        ", tier: {A: 'text_byte > 3', B: else}",
        "",
        3,
        "sources.a.tier.A reads the column text_byte, which neither the documents nor an earlier step has. Did you "
        "mean text_bytes?",
    ),
    "a weight of a step that is not there, before there are shards": (
        ", weight: exact_dedup.dup_count",
        "",
        3,
        "sources.a.weight reads exact_dedup.dup_count, but no step exact_dedup comes before it.",
    ),
    "a weight without a column": (", weight: '3'", TOKENIZER + "shards: {}\n", 3, "names no column"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_reported_once_with_its_line(tmp_path, case):
    """And nothing else is reported: a mistake in shards is not one of the mixture that draws from them."""
    source, rest, line, text_shown = CASES[case]
    with pytest.raises(UserError) as error:
        loaded(tmp_path, (TOP if "steps:" not in rest else TOP.replace("steps: []\n", "")) % source + rest)
    (message,) = str(error.value).splitlines()
    assert f"recipe.yaml:{line}:" in message
    assert text_shown in message
    assert "Columns:" not in message
    assert "shard_groups" not in message


def test_a_tier_may_go_by_tokens_where_there_are_shards(tmp_path):
    """Tokens are counted before documents are sorted into groups."""
    tier = ", tier: {A: 'tokens.tokens > 9', B: else}"
    assert loaded(tmp_path, TOP % tier + TOKENIZER + "shards: {}\n").sources["a"].tiers["A"] == "tokens.tokens > 9"
