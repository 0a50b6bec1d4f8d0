"""A fit stage: the words of the corpus with their counts."""

import json
from collections import Counter

from gristmill.stages.contract import Fit, StageConfig


class Config(StageConfig):
    seed: int = 0
    """Filled from the recipe."""


def fit(batches, config, path):
    words = Counter(word for batch in batches for text in batch.column("text").to_pylist() for word in text.split())
    path.write_text(json.dumps(sorted(words.items())))
    return {"words": len(words)}


STAGE = Fit(config=Config, reads=("text",), only_kept=True, fit=fit)
