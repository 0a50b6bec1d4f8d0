"""A store with a million generated documents, made by a real run: for benches of the explorer and the report."""

import json
import random
from pathlib import Path

from bench.inputs import made_up_texts
from gristmill.engine.mill import Mill, Silent
from gristmill.recipe.load import load

DOCUMENTS = 1_000_000
RECIPE = """
recipe: million
store: ./store
sources:
  web: {kind: text, read: {format: jsonl, paths: [web.jsonl], fields: {key: id, url: url}, part_bytes: 32MiB}}
  notes: {kind: text, read: {format: jsonl, paths: [notes.jsonl], fields: {key: id}, part_bytes: 32MiB}}
steps:
  - language
  - keep_language: {keep: {en: 0.3}}
  - signals
  - heuristics: {gopher_quality: {min_words: 50, min_letter_words_share: 0.6}, gopher_repetition: {}}
  - exact_dedup
"""


def make_million(folder: Path, documents: int = DOCUMENTS) -> Path:
    """Write the inputs and run the recipe, whose path is returned. Nothing is done if the folder has the recipe."""
    recipe = folder / "recipe.yaml"
    if not recipe.exists():
        folder.mkdir(parents=True, exist_ok=True)
        draw, texts = random.Random(1), made_up_texts()
        words = " ".join(next(texts) for _ in range(300)).split()
        with (folder / "web.jsonl").open("w") as web, (folder / "notes.jsonl").open("w") as notes:
            for number in range(documents):
                start, length = draw.randrange(len(words) - 120), draw.randint(10, 110)
                row = {"id": number, "text": " ".join(words[start : start + length])}
                if number % 4:
                    row["url"] = f"https://site{draw.randrange(5000)}.example/{draw.choice(words)}/{number}"
                (web if number % 4 else notes).write(json.dumps(row) + "\n")
        recipe.with_suffix(".part").write_text(RECIPE)
        Mill(load(recipe.with_suffix(".part"))).run(None, Silent())
        recipe.with_suffix(".part").rename(recipe)
    return recipe


if __name__ == "__main__":
    import sys

    make_million(Path(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else DOCUMENTS)
