"""A small corpus that a recipe turns into shards and a manifest."""

import json
import random
from collections import Counter

import numpy as np

from gristmill.loader import read_manifest
from gristmill.shardformat.index import read_index
from gristmill.tokenizer.files import load, write_json
from gristmill.tokenizer.model import Tokenizer

WORDS = ["mill", "grain", "stone", "water", "wheel", "flour", "sack", "hopper", "sieve", "dam", "race", "gear"]
MIX = "mix: {tokens: 40k, domains: {notes: 0.7, tales: 0.3}, tiers: {A: 4, B: 1}, max_epochs: 9}"
PHASES = """mix:
  tokens: 40k
  domains: {notes: 0.7, tales: 0.3}
  tiers: {A: 4, B: 1}
  max_epochs: 50
  phases:
    - {name: main, share: 0.75}
    - {name: cooldown, tiers: {A: 1, B: 0}, learning_rate: {shape: linear}}
"""


class Corpus:
    """Two sources of JSON lines, a byte tokenizer, and a recipe up to the manifest."""

    def __init__(self, project):
        self.project = project
        self.folder = project.folder
        empty = np.zeros(0, np.int32)
        write_json(Tokenizer.from_merges("gristmill", empty, empty), self.folder)
        self.documents = {"notes": self.write("notes", 300, 11), "tales": self.write("tales", 40, 12)}

    def write(self, name, count, seed, gone=(), words=60):
        draw = random.Random(seed)
        texts = {f"{name}{n}": " ".join(draw.choices(WORDS, k=draw.randint(1, words))) + f" {n}" for n in range(count)}
        lines = [json.dumps({"id": key, "text": text}) for key, text in texts.items()]
        # Blanked, not removed: the others keep their position in the file, and so their ids.
        lines = [" " * len(line) if key in gone else line for key, line in zip(texts, lines, strict=True)]
        (self.folder / f"{name}.jsonl").write_text("\n".join(lines))
        return texts

    def recipe(self, mix=PHASES, shards="shard_tokens: 4000", more=""):
        read = "{{format: jsonl, paths: [{0}.jsonl], fields: {{key: id}}{2}}}"
        source = f"{{{{kind: text, read: {read}, domain: {{0}}, tier: {{1}}}}}}"
        tier = "{A: 'text_bytes > 200', B: else}"
        self.project.recipe.write_text(
            f"recipe: small\nseed: 5\nstore: ./store\nsources:\n  notes: {source.format('notes', tier, more)}\n"
            f"  tales: {source.format('tales', 'A', more)}\nsteps: []\ntokenizer: {{file: tokenizer.json}}\n"
            f"shards: {{seq_len_tokens: 256, {shards}}}\n{mix}\n"
        )

    def run(self, **options):
        run = self.project.run(**options)
        return run, read_manifest(run.shards)

    def texts(self, manifest):
        """The texts in the shards, reassembled from their pieces: (source, text) with a count."""
        tokenizer = load(str(self.folder / "tokenizer.json"))
        end = manifest.tokenizer["end_of_document"]
        found = Counter()
        for group in manifest.groups:
            for shard in group.shards:
                index = read_index(manifest.where(shard.index))
                data = np.fromfile(manifest.where(shard.bin), f"<u{manifest.token_bytes}").reshape(-1, manifest.seq_len)
                pieces = {}
                for row in range(shard.samples):
                    at = 0
                    for piece in range(int(index.first_piece[row]), int(index.first_piece[row + 1])):
                        ids = data[row, at : at + int(index.length[piece])].tolist()
                        pieces.setdefault(bytes(index.doc_id[piece]), []).append((int(index.doc_offset[piece]), ids))
                        at += len(ids)
                for parts in pieces.values():
                    ids = [token for _, some in sorted(parts) for token in some]
                    assert ids.count(end) == 1
                    assert ids[-1] == end
                    found[group.source, tokenizer.decode(ids[:-1])] += 1
        return found
