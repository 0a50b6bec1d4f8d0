"""A watched corpus of pages and notes, and one regression of each kind that `watch` must name."""

import json
import random
from pathlib import Path

from gristmill.query.watch import Comparison

EXTRACTOR = '''"""An extractor that keeps everything outside of tags: navigation, menus, footers."""
import pyarrow as pa
import pyarrow.compute as pc
from gristmill.stages.contract import Map, StageConfig

SCHEMA = pa.schema([("text", pa.string())])


class Config(StageConfig):
    pass


def apply(batch, config):
    text = pc.replace_substring_regex(batch.column("html"), r"(?is)<(script|style)\\b.*?</(script|style)>|<[^>]*>", " ")
    return pa.RecordBatch.from_arrays([pc.coalesce(text, batch.column("text"))], schema=SCHEMA)


STAGE = Map(version=1, config=Config, reads=("html", "text"), schema=SCHEMA, apply=apply)
'''
RECIPE = """
recipe: watched
store: ./store
sources:
  pages:
    kind: web
    domain: pages
    read: {format: jsonl, paths: [pages-*.jsonl], snapshot: "pages-(.*).jsonl", fields: {text: null, html: html}}
  notes: {kind: text, domain: notes, read: {format: jsonl, paths: [notes.jsonl]}}
steps:
  web:
    - extract
    - language
    - keep_language: {min_probability: 0.5}
  text:
    - language
  all:
    - signals
    - heuristics: {rules: [gopher_quality, gopher_repetition]}
    - near_dedup: {scope: source_and_snapshot}
tokenizer:
  train: {vocab: 1000, sample_bytes: {pages: 1MB, notes: 2MB}}
shards: {seq_len_tokens: 512, shard_tokens: 1M}
"""
SEEDED = {
    "navigation": ("- extract", "- keeps_all", "distribution", "Text for each byte of a page"),
    "language": ("min_probability: 0.5", "min_probability: 0.99", "survival", "web/keep_language"),
    "rules_twice": (
        "    - near_dedup",
        "    - heuristics: {rules: [gopher_quality]}\n    - near_dedup",
        "steps",
        "heuristics_2",
    ),
    "snapshot": ("pages-*.jsonl]", "pages-a.jsonl]", "documents", "snapshot b"),
    "tokenizer": ("vocab: 1000", "vocab: 512", "tokens_per_byte", "tokenizer"),
    "dedup_scope": ("scope: source_and_snapshot", "scope: global", "clusters", "Check its scope"),
}
"""What a recipe has, what replaces it, and the kind and a word of the alarm."""


def caught(found: Comparison, what: str, where: str) -> int:
    return int(any(alarm.what == what and where in alarm.message for alarm in found.alarms))


def write(folder: Path, pages: list[str], notes: list[str], seed: int) -> Path:
    """Write a random half of the documents, and the recipe. Every page is in one of two snapshots."""
    draw = random.Random(seed)
    folder.mkdir(exist_ok=True)
    for snapshot in "ab":
        chosen = [page for number, page in enumerate(pages) if "ab"[number % 2] == snapshot and draw.random() < 0.5]
        (folder / f"pages-{snapshot}.jsonl").write_text("".join(json.dumps({"html": page}) + "\n" for page in chosen))
    lines = (json.dumps({"text": note}) + "\n" for note in notes if draw.random() < 0.5)
    (folder / "notes.jsonl").write_text("".join(lines))
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder / "recipe.yaml"
