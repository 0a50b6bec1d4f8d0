"""The held-out documents of a pool as evaluation items, a task for each domain."""

from collections.abc import Mapping
from pathlib import Path

from gristmill.stages.contract import Asset, File, StageConfig
from gristmill.tokenizer.files import load
from gristmill_ablate.proxy.domains import DomainPool
from gristmill_ablate.proxy.items import SuiteItem, encode_items


class Config(StageConfig):
    tokenizer: File
    """The tokenizer of the shards."""
    window: int
    """Tokens of a sequence."""


def make(config: Config, path: Path, *, models: Mapping[str, Path]) -> dict[str, int]:
    pool, tokenizer = DomainPool.load(models["pool"]), load(config.tokenizer)
    texts = []
    for number, domain in enumerate(pool.held_domain):
        ids = pool.held_tokens[pool.held_starts[number] : pool.held_starts[number + 1]]
        text = tokenizer.decode([int(token) for token in ids if token != pool.end])
        if text.strip():
            texts.append(SuiteItem(pool.names[domain], str(number), text))
    items = encode_items(texts, tokenizer.encode_text, pool.end, config.window, len(pool.held_tokens))
    items.save(path)
    return {"items": len(items.task)}


STAGE = Asset(version=1, config=Config, uses=("pool",), make=make)
