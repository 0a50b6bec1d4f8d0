"""Ten documents of many are taken down by their URLs: what is rewritten, what it costs, and whether nothing is left.

The documents are generated, a few hundred bytes each, with a URL. The named ones have near copies under other URLs,
which near_dedup dropped in favour of the one that it kept. The peer is a run of the recipe from the start.
BENCH_DOCUMENTS sets the number of documents.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench.inputs import measurement
from gristmill.tokenizer.files import write_json
from gristmill.tokenizer.model import Tokenizer

DOCUMENTS = int(os.environ.get("BENCH_DOCUMENTS", "5_000"))
NAMED = 10
WORDS = 60
SHARDS = 128
RECIPE = """
recipe: takedown
store: ./store
sources:
  made:
    kind: text
    domain: text
    read: {format: jsonl, paths: [documents.jsonl], fields: {key: id, url: url}, part_bytes: PART}
steps: [near_dedup]
tokenizer: {file: tokenizer.json}
takedowns: requests.yaml
shards: {seq_len_tokens: 256, shard_tokens: TOKENS}
"""


def run(data: Path | None) -> Iterable[dict]:
    with TemporaryDirectory(prefix="gristmill-bench-") as name:
        folder = Path(name)
        tokens = write_inputs(folder)
        recipe = RECIPE.replace("PART", str(max(200 * WORDS * DOCUMENTS // 64, 100_000)))
        (folder / "recipe.yaml").write_text(recipe.replace("TOKENS", str(max(tokens // SHARDS, 256))))
        (folder / "requests.yaml").write_text("")
        whole, first = _timed("run", folder / "recipe.yaml", "--json")
        urls = [f"https://made.example/{number * (DOCUMENTS // NAMED)}" for number in range(NAMED)]
        (folder / "requests.yaml").write_text(json.dumps([{"id": "ten", "urls": urls}]))
        again, second = _timed("run", folder / "recipe.yaml", "--json")
        receipt = folder / "receipt"
        made, _ = _timed("takedown", "receipt", folder / "recipe.yaml", "--before", first["version"], "--out", receipt)
        content = json.loads((receipt / "receipt.json").read_text())
        proved, found = _timed("takedown", "verify", receipt, "--json")
        assert first["version"] != second["version"]
        yield measurement("takedown.documents", DOCUMENTS, "documents")
        yield measurement("takedown.run", again, "s", "a run from the start", whole, less=True)
        yield measurement("takedown.removed", len(content["documents"]), "documents taken out of shards")
        changed, same = len(content["shards"]["changed"]), content["shards"]["unchanged"]
        yield measurement("takedown.shards", changed, f"shards rewritten (goal: at most {NAMED}), {same} the same")
        yield measurement("takedown.receipt", made, "s")
        yield measurement("takedown.verify", proved, "s")
        yield measurement("takedown.left", len(found["faults"]), "faults that verify finds (goal: none)")


def write_inputs(folder: Path) -> int:
    """Writes documents of words drawn from many, followed by copies of some; returns about how many tokens."""
    draw = random.Random(5)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(5000)]
    empty = np.zeros(0, np.int32)
    write_json(Tokenizer.from_merges("gristmill", empty, empty), folder)
    texts = 0
    with (folder / "documents.jsonl").open("w") as file:
        for number in range(DOCUMENTS):
            text = " ".join(draw.choices(words, k=WORDS))
            texts += len(text)
            file.write(json.dumps({"id": number, "url": f"https://made.example/{number}", "text": text}) + "\n")
            if number % (DOCUMENTS // NAMED) == 0:
                for copy in range(3):
                    line = {"id": f"{number}-{copy}", "url": f"https://copy{copy}.example/{number}", "text": text}
                    file.write(json.dumps({**line, "text": f"{text} {words[copy]}"}) + "\n")
    return texts


def _timed(*words: object) -> tuple[float, dict]:
    begun = time.perf_counter()
    command = [sys.executable, "-m", "gristmill", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return time.perf_counter() - begun, json.loads(done.stdout) if "--json" in words else {}
