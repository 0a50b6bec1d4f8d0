"""Recipes: a mistake is one UserError, never another exception, and a valid recipe loads the same again."""

from collections.abc import Iterator
from pathlib import Path

from fuzz.target import Target, hold, words
from gristmill.errors import UserError
from gristmill.recipe.load import load

_ENV = {"STORE": "./store", "CRAWL": "crawl", "REFERENCE": "r.jsonl", "REPOSITORIES": "repos", "X": "1"}
_RECIPES = Path(__file__).parent.parent.parent / "recipes"

_SMALL = b"""recipe: small
seed: 7
store: ./store
sources:
  a: &a {kind: text, read: {format: jsonl, paths: ["in/*.jsonl", "${X}"], part_bytes: 4KB, snapshot: "in/([^/]+)/"}}
  b: {<<: *a, license: MIT, domain: web, tier: {A: "text_bytes > 100", B: else}, weight: text_bytes / 10}
steps:
  text:
    - extract
    - signals
    - heuristics: {rules: [c4], gopher_quality: {min_letter_words_share: 0.7}}
  all:
    - exact_dedup
    - near_dedup: {ngram: 5, bands: 14, rows: 8}
"""


def _seeds() -> Iterator[bytes]:
    yield _SMALL
    for path in sorted(_RECIPES.glob("*.yaml")):
        yield path.read_bytes()


def _check(data: bytes, folder: Path) -> None:
    path = folder / "recipe.yaml"
    path.write_bytes(data)
    try:
        recipe = load(path, env=_ENV)
    except UserError as error:
        hold(str(path) in str(error), "the message does not name the file")
        hold(len(str(error)) < 200_000, "the message is longer than a book")
        return
    hold(load(path, env=_ENV) == recipe, "the same file is another recipe")


_WORDS = (
    *words(
        b"&a |*a|<<: *a\n|<<: [*a, *a]\n|- |? |: |{|}|[|]|\"|'|!!int |\t|---\n|...\n|#|${X}|${|$$|>-\n|\n  "
        b"|\n    |seed: |steps:\n|all:\n|sources:\n|paths: [|0x|0o7|.inf|.nan|1e400|1e-400|-0|null|~|true"
        b"|\xef\xbb\xbf|\xc2\x85|\xe2\x80\xa8|\\ud800|part_bytes: |tier: |else|mix: |tokens: |memory://x"
        b"|file:///x|::|tokenizer: {train: {vocab: |shards: {seq_len_tokens: "
    ),
    b"9" * 400,
)

TARGETS = [Target("recipe", _seeds, _check, _WORDS, work_per_byte=20_000)]
