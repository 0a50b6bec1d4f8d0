"""The items of an eval suite as tokens of one tokenizer (proxy/items.py)."""

from contextlib import suppress
from pathlib import Path

from pydantic import Field

from gristmill.errors import UserError
from gristmill.stages.contract import Asset, File, StageConfig
from gristmill.stages.decontaminate.suite.suite import SuiteFolder, read_suite
from gristmill.tokenizer.files import load
from gristmill.tokenizer.library import LibraryTokenizer
from gristmill.tokenizer.model import Tokenizer
from gristmill_ablate.proxy.items import SuiteItem, encode_items


class Config(StageConfig):
    suite: SuiteFolder
    """The folder of an eval suite, or the YAML file in it (docs/suites.md)."""
    tokenizer: File
    """The tokenizer of the shards."""
    end: int
    """Its token between documents."""
    window: int = Field(default=512, ge=16, le=8192)
    """Tokens of a sequence."""
    tokens: int = Field(default=500_000, ge=1)
    """Tokens of a task from which on no further item of it is taken; those with the least hashes come first."""


def make(config: Config, path: Path) -> dict[str, dict[str, int]]:
    suite, tokenizer = read_suite(config.suite), load(config.tokenizer)
    ordered = sorted(suite.items, key=lambda item: (item.benchmark, item.digest))

    def continues() -> list[bool]:
        texts = (_text(tokenizer, token) for token in range(tokenizer.vocab_size))
        return [text[:1].isalnum() or text[:1] == "\ufffd" for text in texts]  # also a byte inside a character

    texts = [
        SuiteItem(entry.benchmark, entry.id, entry.question, entry.answer, entry.choices, entry.context)
        for entry in ordered
    ]
    items = encode_items(texts, tokenizer.encode_text, config.end, config.window, config.tokens, continues)
    items.save(path)
    counts = {name: int((items.task == number).sum()) for number, name in enumerate(items.tasks)}
    return {"suites": {suite.hash: 1}, "items": counts}


def _text(tokenizer: Tokenizer | LibraryTokenizer, token: int) -> str:
    """Empty where the vocabulary has a gap."""
    with suppress(UserError):
        return tokenizer.token_bytes(token).decode("utf-8", "replace")
    return ""


STAGE = Asset(version=2, config=Config, make=make)
