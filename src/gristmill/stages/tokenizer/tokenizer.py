"""Trains the tokenizer on its sample: byte-level BPE (Sennrich et al. 2016), pre-tokens counted by our scanner.

The counts do not depend on the order of texts, and the trainer gets the words sorted by their bytes. The same sample
therefore gives the same file, for any workers and batches. Memory grows with the distinct pre-tokens. The model file is
a `tokenizer.json` that Hugging Face `tokenizers` reads.
"""

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gristmill.counted import counted
from gristmill.errors import UserError, WrongSetting
from gristmill.stages.contract import AsCount, Fit, StageConfig
from gristmill.stages.tokenizer.tokenizer_sample import TRAIN
from gristmill.tokenizer.special import DEFAULT, ordinary_warning, special_tokens

READS = ("tokenizer_text.sampled", "tokenizer_text.domain", "tokenizer_text.split")

_BYTES = 256
_MOST = 2_000_000
"""Ten times the largest vocabulary in use; a larger one is a typing mistake."""


class Config(StageConfig):
    vocab: Annotated[int, AsCount, Field(ge=1, le=_MOST)] = 128_000
    """Entries of the vocabulary: 256 bytes, the special tokens (256 by default), and merges."""
    special: tuple[str, ...] = DEFAULT
    """Special tokens: single names, and the ready groups document, chat, tools, reasoning, fim, languages and
    code_languages."""
    reserved: Annotated[int, AsCount, Field(ge=0, le=65_536)] | None = None
    """Slots without a name, which tokenizer.names can name later. null: as many as make 256 special tokens."""
    pattern: Literal["gristmill", "llama3", "cl100k", "cl100k_tail", "gpt2", "o200k", "qwen2"] = "gristmill"
    """How text is split into pre-tokens; merges never cross them."""
    min_count: Annotated[int, AsCount, Field(ge=1)] = 2
    """The least occurrences of a pre-token; rarer ones are mostly names, numbers and typing errors."""
    min_pair_count: Annotated[int, AsCount, Field(ge=1)] = 2
    """The least occurrences of a pair of tokens to merge."""


def check(config: Config) -> None:
    """The names must be possible, and leave room in the vocabulary."""
    try:
        count = len(special_tokens(config.special, config.reserved))
    except ValueError as error:
        raise WrongSetting("special", f"{error}.") from None
    if config.vocab < _BYTES + count:
        raise WrongSetting(
            "vocab", f"{config.vocab} is less than the {_BYTES + count} of bytes and special tokens. Raise it."
        )


def fit(batches: Iterable[pa.RecordBatch], config: Config, path: Path) -> dict[str, Any]:
    # Imported here, since every command loads this module's config but only a worker trains.
    from gristmill.kernels.bpe.pretoken_classes import class_table
    from gristmill.kernels.bpe.pretoken_counts import count_pretokens
    from gristmill.kernels.bpe.train import train
    from gristmill.kernels.hash.word_counts import export, no_words
    from gristmill.stages.buffers import bytes_of
    from gristmill.tokenizer.files import write_json
    from gristmill.tokenizer.model import Tokenizer
    from gristmill.tokenizer.patterns import PATTERNS

    table, scanner, classes = no_words(), PATTERNS[config.pattern].scanner, class_table()
    domains: dict[str, dict[str, dict[str, int]]] = {}
    for batch in batches:
        text, domain, split = (batch.column(place) for place in range(len(READS)))
        _count(domains, domain, split, text)
        text = text.filter(pc.equal(split, TRAIN))
        if len(text):
            data, offsets = bytes_of(text)
            table = count_pretokens(table, data, offsets, scanner, classes)
    distinct = int(table.used[0])
    if not distinct:
        raise UserError(
            "tokenizer: no document is left to train on, so there is no tokenizer. "
            "See in the funnel what each rule dropped, and check tokenizer.train.sample_bytes."
        )
    words = export(table, config.min_count)
    del table
    specials = special_tokens(config.special, config.reserved)
    left, right = train(*words, config.vocab - _BYTES - len(specials), config.min_pair_count)
    tokenizer = Tokenizer.from_merges(config.pattern, left, right, specials)
    with tempfile.TemporaryDirectory(prefix="gristmill-") as folder:
        shutil.move(write_json(tokenizer, Path(folder)), path)
    return {
        "domains": domains,
        "pretokens": int(words.counts.sum()),
        "distinct_pretokens": distinct,
        "distinct_pretokens_used": len(words.counts),
        "merges": len(left),
        "vocab": tokenizer.vocab_size,
        "tokenizers": {tokenizer.hash: 1},
    }


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    """Warn if the sample has too few merges for the vocabulary, and about names that ordinary text may contain."""
    warned = ordinary_warning(special_tokens(config.special, 0))
    if found.get("vocab", config.vocab) < config.vocab:
        warned.append(
            f"the sample has only {counted(found['merges'], 'merge')}, so the vocabulary has {found['vocab']:,} "
            f"entries instead of {config.vocab:,}. Use more text, or lower min_count and min_pair_count"
        )
    return warned


def _count(domains: dict[str, Any], domain: pa.Array, split: pa.Array, text: pa.Array) -> None:
    """Add the sampled documents and bytes, by domain and split, to `domains`."""
    taken = pa.table({"domain": domain, "split": split, "bytes": pc.binary_length(text)}).drop_null()
    counted = taken.group_by(["domain", "split"], use_threads=False).aggregate([("bytes", "sum"), ([], "count_all")])
    for entry in counted.to_pylist():
        counts = domains.setdefault(entry["domain"], {}).setdefault(entry["split"], {"documents": 0, "bytes": 0})
        counts["documents"] += entry["count_all"]
        counts["bytes"] += entry["bytes_sum"]


STAGE = Fit(version=1, config=Config, reads=READS, fit=fit, suffix="json", check=check, warnings=warnings)
