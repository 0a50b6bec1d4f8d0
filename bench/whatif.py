"""`gristmill whatif` over a million documents: the whole command, from typing it to the answer.

The bench generates documents of about 60 words, and measures and judges them once (not timed). Then it runs `whatif`
for one threshold. The peer is the alternative: running the changed recipe, decisions only, with cached measurements.
"""

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.inputs import made_up_texts, measurement
from gristmill.engine.mill import Mill, Silent
from gristmill.recipe.load import load

DOCUMENTS = 1_000_000


def run(data: Path | None) -> Iterable[dict]:
    with TemporaryDirectory(prefix="gristmill-bench-") as name:
        folder = Path(name)
        write_documents(folder / "documents.jsonl", DOCUMENTS)
        recipe = folder / "recipe.yaml"
        text = (
            "recipe: million\nstore: ./store\n"
            "sources:\n  made: {kind: text, read: {format: jsonl, paths: [documents.jsonl], part_bytes: 32MiB}}\n"
            "steps:\n  - signals\n"
            "  - heuristics: {gopher_quality: {min_words: 50}, gopher_repetition: {}, fineweb: {}}\n"
        )
        recipe.write_text(text)
        Mill(load(recipe)).run(None, Silent())
        command = [sys.executable, "-m", "gristmill.cli.main", "whatif", str(recipe)]
        begun = time.perf_counter()
        done = subprocess.run(
            [*command, "heuristics.gopher_quality.min_words=30", "--json"], check=True, capture_output=True, text=True
        )
        seconds = time.perf_counter() - begun
        answer = json.loads(done.stdout)
        recipe.write_text(text.replace("min_words: 50", "min_words: 30"))
        begun = time.perf_counter()
        Mill(load(recipe)).run(None, Silent())
        ran = time.perf_counter() - begun
        yield measurement("whatif.million_documents", seconds, "s (goal: under 3)", "running it", ran, less=True)
        yield measurement("whatif.documents", answer["documents"], "documents")
        yield measurement("whatif.would_come", answer["come"]["documents"], "documents")


def write_documents(path: Path, documents: int) -> None:
    """Writes JSON lines of 10 to 110 words."""
    draw = random.Random(1)
    texts = made_up_texts()
    words = " ".join(next(texts) for _ in range(300)).split()
    with path.open("w") as file:
        for number in range(documents):
            start, length = draw.randrange(len(words) - 120), draw.randint(10, 110)
            file.write(json.dumps({"id": number, "text": " ".join(words[start : start + length])}) + "\n")
