"""Random tokens of trainings, each traced back to the bytes of an input file that produce it.

The bench runs on the demo, and with --data on the WARC and JSONL files of a folder. It draws a training sample and a
token of it at random, looks up its document, reads its record again from the input, runs every map step again on it,
and compares the result with every layer and with the shards (`gristmill lineage --prove`). Every proof must succeed.
"""

import os
import random
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.inputs import measurement, scratch
from demo import build
from gristmill.engine.mill import Mill, Silent
from gristmill.loader.order import Order
from gristmill.query.documents.lookup import find
from gristmill.query.lineage.lives import shard_pieces
from gristmill.query.lineage.prove import Differs, Prover
from gristmill.query.versions.published import Published
from gristmill.recipe.load import load

TOKENS = int(os.environ.get("TOKENS", "1000"))
SCALE = 1.0
"""The scale of the demo's inputs, and of the tokens that its mixture draws from them."""
DEMO = Path(__file__).parents[1] / "recipes" / "demo.yaml"
BUDGET = "  tokens: 2M\n"
REAL = """recipe: real
seed: 3
sources:
{sources}
steps:
  web:
    - robots: {{agent: CCBot}}
    - extract
    - language
    - keep_language: {{keep: {{en: 0.65}}}}
    - signals
    - heuristics: {{rules: [gopher_repetition, gopher_quality]}}
    - lines: {{terminal_punctuation: false}}
    - url_dedup
  text:
    - language
    - signals
  all:
    - exact_dedup
    - line_dedup: {{scope: snapshot}}
    - near_dedup
    - substring_dedup
tokenizer: {{train: {{vocab: 16000, sample_bytes: {{all: 4MB}}}}}}
shards: {{seq_len_tokens: 1024, shard_tokens: 500k}}
"""
SOURCES = {
    "crawl": ("*.warc.gz", "{{kind: web, read: {{format: warc, paths: ['{0}/**/*.warc.gz']}}, domain: all}}"),
    "texts": ("*.jsonl.zst", "{{kind: text, read: {{format: jsonl, paths: ['{0}/**/*.jsonl.zst']}}, domain: all}}"),
}


def run(data: Path | None) -> Iterable[dict]:
    with scratch() as folder:
        yield from proved("demo", demo(folder), folder / "demo-store")
        if data is not None:
            yield from proved("real", real(data, folder), folder / "real-store")


def demo(folder: Path) -> Path:
    build(folder / "demo" / "inputs", scale=SCALE)
    (folder / "recipes").mkdir()
    recipe = folder / "recipes" / "demo.yaml"
    text = DEMO.read_text()
    assert BUDGET in text
    recipe.write_text(text.replace(BUDGET, f"  tokens: {round(2_000_000 * SCALE)}\n"))
    return recipe


def real(data: Path, folder: Path) -> Path:
    here = {name: text for name, (files, text) in SOURCES.items() if any(data.rglob(files))}
    recipe = folder / "real.yaml"
    sources = "\n".join(f"  {name}: {text.format(data.resolve())}" for name, text in here.items())
    recipe.write_text(REAL.format(sources=sources))
    return recipe


def proved(name: str, recipe: Path, store: Path) -> Iterator[dict]:
    mill = Mill(load(recipe, store=str(store)))
    mill.run(None, Silent())
    state = mill.dry_run()
    shards = Published(state)
    drawn = list(draw(shards))
    begun = time.perf_counter()
    places = {place.doc_id: place for place in find(state, doc_id=sorted({doc_id.hex() for doc_id, *_ in drawn}))}
    ordered = sorted(places.values(), key=lambda place: (place.document.source, place.document.order, place.row))
    prover, holds, faults = Prover(state, ordered), {}, []
    for place in ordered:
        pieces = list(shard_pieces(shards, place.doc_id.hex()))
        try:
            prover.prove(place, pieces)
            holds[place.doc_id] = pieces
        except Differs as differs:
            faults.append(str(differs))
    right = sum(_is_there(holds.get(doc_id, []), at, token) for doc_id, at, token in drawn)
    seconds = time.perf_counter() - begun
    yield measurement(f"lineage.{name}.proved", right, f"of {len(drawn)} random tokens {faults[:3] or ''}".strip())
    yield measurement(f"lineage.{name}.documents", len(ordered), "documents that they are of")
    yield measurement(f"lineage.{name}.seconds", seconds / max(1, len(ordered)), "s a document")


def draw(shards: Published) -> Iterator[tuple[bytes, int, int]]:
    """Tokens at random positions of a training, without padding: their document, the position in it, and the token."""
    manifest, order, rng = shards.manifest, Order(shards.manifest), random.Random(11)
    left = TOKENS
    while left:
        at, token = order.place(rng.randrange(manifest.samples)), rng.randrange(manifest.seq_len)
        files = shards.open_shard(manifest.groups[at.group], at.shard)
        begin = 0
        for piece in range(int(files.index.first_piece[at.row]), int(files.index.first_piece[at.row + 1])):
            length = int(files.index.length[piece])
            if begin <= token < begin + length:
                within = int(files.index.doc_offset[piece]) + token - begin
                yield bytes(files.index.doc_id[piece]), within, int(files.view(at.row)[token])
                left -= 1
            begin += length


def _is_there(pieces: list, at: int, token: int) -> bool:
    """Whether the proved tokens have this token at this position."""
    held = [piece for piece in pieces if piece.doc_offset <= at < piece.doc_offset + len(piece.ids)]
    return len(held) == 1 and int(held[0].ids[at - held[0].doc_offset]) == token
