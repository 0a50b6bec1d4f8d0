"""Shuffles the tokens of documents and packs them into shards, which a training cluster reads.

A group (source, tier) has 2^k shards, and the top k bits of a hash of seed and doc_id select the shard of a document.
Within a shard, documents are sorted by the same hash. This shuffles the whole group, independent of the number of
workers, and removing a document changes only its own shard. Each shard is three files:

    tokens.bin        ids, `seq_len_tokens` per sample (uint16 if the vocabulary fits, else uint32)
    tokens.index      the start of samples and of the documents in them (shardformat/index.py has the layout)
    lineage.parquet   the document of each token

`best_fit` splits a document that fits into a sample only if more than 2% would be padding otherwise (Ding et al. 2024,
*Fewer Truncations*); `whole` never does. Both need 0.02% of padding if there are many short documents. `concat` has
padding only at the end, and splits about one document per sample.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gristmill.counted import counted
from gristmill.errors import CannotBeMet, UserError, WrongSetting
from gristmill.stages.contract import AsCount, Count, Sink, StageConfig
from gristmill.stages.doc_order import doc_order
from gristmill.stages.shards.special_ids import special_ids
from gristmill.stages.shards.tokens import open_tokenizer, token_type

Array = np.ndarray[Any, Any]

READS = ("doc_id", "locator", "tokens.ids", "shard_groups.group")
RECORD_SCHEMA = pa.schema([("doc_id", pa.binary(16)), ("locator", pa.string()), ("ids", pa.large_binary())])
FILES = ("tokens.bin", "tokens.index", "lineage.parquet")
SIDECARS = {
    "megatron": ("tokens.idx",),
    "datatrove": ("tokens.ds.index", "tokens.ds.metadata"),
    "olmo": ("tokens.csv.gz",),
}
"""The files that other trainers read with the tokens."""
TOKENS_AS = {"tokens.idx": ".bin", "tokens.ds.index": ".ds", "tokens.csv.gz": ".npy"}
"""The suffix that the tokens need for a sidecar."""

MOST_GROUPS = 2000
"""Of a source: each has separate shards."""
LONGEST_SAMPLE = 2**24
NAME_BYTES = 128
"""The longest name of a recipe or group in the header of an index."""
PADDING_SHARE = 0.02
FEW_SAMPLES = 50
"""With fewer samples, one partly filled sample at the end is already 2% of the tokens."""


class ShardOptions(StageConfig):
    """The options of shards that users set."""

    seq_len_tokens: Annotated[int, AsCount, Field(ge=1, le=LONGEST_SAMPLE)] = 8192
    """Tokens of a sample; 8k is 8,000."""
    pack: Literal["best_fit", "whole", "concat"] = "best_fit"
    """best_fit: split documents that fit into a sample only if padding would exceed 2%; whole: never split them;
    concat: concatenate documents and split at samples.
    """
    shard_tokens: Count = 2**26
    """Tokens of a shard, to within a factor of the square root of 2: the number of shards is a power of two."""
    padding: str | None = None
    """The special token that pads a sample. null: the tokenizer's usual one, or else its end-of-document token."""
    end_of_document: str | None = None
    """The special token after every document. null: the tokenizer's usual one."""
    sidecars: tuple[Literal["megatron", "datatrove", "olmo"], ...] = ("megatron", "datatrove", "olmo")
    """Trainers to write sidecar files for: Megatron-LM, datatrove, OLMo-core; about 1% of the tokens' bytes."""
    seed: int = 0
    """Seed of the shuffle."""


class Config(ShardOptions):
    recipe: str = ""
    """The name of the recipe, for the header of a shard; set by the recipe's loader."""


def check(config: Config) -> None:
    """A shard must have at least one sample, and its header must have space for the recipe's name."""
    if config.shard_tokens < config.seq_len_tokens:
        raise WrongSetting(
            "shard_tokens",
            f"{config.shard_tokens} is less than one sample of {counted(config.seq_len_tokens, 'token')}, "
            f"so every shard would be mostly padding. Set it to {config.seq_len_tokens} or more (default: {2**26}).",
        )
    _check_name("recipe", config.recipe)


def layout(counts: Mapping[str, Any], config: Config) -> dict[str, list[dict[str, Any]]]:
    """The shards of each source: its groups sorted by name, each with a power of two of shards."""
    entries: dict[str, list[dict[str, Any]]] = {}
    for source, groups in counts.get("groups", {}).items():
        entries[source] = []
        _check_groups(source, groups)
        for group in sorted(groups):
            _check_name("group", group)
            if groups[group]["tokens"]:
                shards = shards_of(groups[group]["tokens"], config.shard_tokens)
                entries[source] += [
                    {"group": group, "source": source, "shard": shard, "of": shards} for shard in range(shards)
                ]
    return entries


def _check_groups(source: str, groups: Collection[str]) -> None:
    """Domains and tiers of a column may be too many, or have names that some disks take for one."""
    folded: dict[str, str] = {}
    for group in sorted(groups):
        if (twin := folded.setdefault(group.lower(), group)) != group:
            raise CannotBeMet(
                f"the groups {twin} and {group} differ in case only, and names become file names: on some disks the "
                "two would be one. Write the values of the column alike."
            )
    if len(groups) > MOST_GROUPS:
        raise CannotBeMet(
            f"the source {source} has {counted(len(groups), 'group')} of domain, tier and weight, more than "
            f"{MOST_GROUPS:,}, and each has separate files. Name a column with fewer values as its domain or tier."
        )


def shards_of(tokens: int, shard_tokens: int) -> int:
    """The power of two for which the tokens of a shard are closest to `shard_tokens`, as a ratio.

    Half a step is a ratio of the square root of 2. Comparing squares is exact and never a tie.
    """
    shards = 1
    while (tokens * tokens) > 2 * (shard_tokens * shards) ** 2:
        shards *= 2
    return shards


def emit(batch: pa.RecordBatch, config: Config, layout: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Send every document with tokens to its shard, by the shard's number in the layout."""
    kept = pc.and_(batch.column(2).is_valid(), batch.column(3).is_valid())
    doc_id, locator, ids, group = (batch.column(place).filter(kept) for place in range(len(READS)))
    begins = {entry["group"]: place for place, entry in enumerate(layout) if entry["shard"] == 0}
    names = group.dictionary_encode()
    found = [begins[name] for name in names.dictionary.to_pylist()]
    first = np.array(found, np.uint64)[names.indices.to_numpy()]
    bits = np.array([layout[place]["of"].bit_length() - 1 for place in found], np.uint64)[names.indices.to_numpy()]
    top, _ = doc_order(doc_id, config.seed)
    key = first + shard_number(top, bits)
    return pa.RecordBatch.from_arrays(
        [pa.array(key, pa.uint64()), doc_id, locator, ids], names=["key", *RECORD_SCHEMA.names]
    )


def shard_number(top: Array, bits: Array) -> Array:
    """The shard of a document in a group of 2^bits shards: the top bits of its hash."""
    # Two shifts, since a shift by 64 is undefined.
    return (top >> np.uint64(1)) >> (np.uint64(63) - bits)


def files(config: Config) -> tuple[str, ...]:
    """The files of every shard."""
    return (*FILES, *(name for kind in SIDECARS if kind in config.sidecars for name in SIDECARS[kind]))


def published_names(name: str, beside: Collection[str]) -> tuple[str, ...]:
    """The suffixes under which a file of a shard is published, given the names of all its files."""
    if name == "tokens.bin":
        return tuple(dict.fromkeys([".bin", *(ending for other, ending in TOKENS_AS.items() if other in beside)]))
    return (f".{name}" if name == "lineage.parquet" else name.removeprefix("tokens"),)


def build(
    records: pa.Table | None, config: Config, entry: Mapping[str, Any], folder: Path, models: Mapping[str, Path]
) -> dict[str, int]:
    """Write the files of one shard."""
    from gristmill.shardformat.index import read_index
    from gristmill.stages.shards.pack import write_shard
    from gristmill.stages.shards.sidecars import sidecars

    known = facts(config, models)
    metrics = write_shard(
        RECORD_SCHEMA.empty_table() if records is None else records,
        Path(folder),
        seed=config.seed,
        pack=config.pack,
        seq_len=config.seq_len_tokens,
        token_bytes=known["token_bytes"],
        end_of_document=known["tokenizer"]["end_of_document"],
        padding=known["tokenizer"]["padding"],
        tokenizer=known["tokenizer"]["hash"],
        recipe=config.recipe,
        group=entry["group"],
        source=entry["source"],
    )
    index = read_index(folder / "tokens.index")
    for name, content in sidecars(index, folder / "lineage.parquet", config.sidecars).items():
        (folder / name).write_bytes(content)
    return metrics


def facts(config: Config, models: Mapping[str, Path]) -> dict[str, Any]:
    """The facts common to all shards: the tokenizer, its special ids, the length of a sample, the size of an id."""
    tokenizer = open_tokenizer(str(models["tokenizer"]))
    end_of_document, padding = special_ids(tokenizer, config.end_of_document, config.padding)
    return {
        "tokenizer": {
            "hash": tokenizer.hash,
            "vocab_size": tokenizer.vocab_size,
            "end_of_document": end_of_document,
            "padding": padding,
        },
        "seq_len": config.seq_len_tokens,
        "token_bytes": token_type(tokenizer.vocab_size).itemsize,
    }


def warnings(found: Mapping[str, Any], config: Config) -> Sequence[str]:
    """Warn if there is no document, or more padding than best fit needs."""
    if not found.get("documents"):
        return ("no document reached the shards, so there is nothing to train on. See what the steps removed",)
    tokens, padding, samples = (found.get(name, 0) for name in ("tokens", "padding", "samples"))
    if samples > FEW_SAMPLES and padding > PADDING_SHARE * (tokens + padding):
        fix = "use pack: best_fit, which splits documents" if config.pack == "whole" else "raise shard_tokens"
        return (
            f"{100 * padding / (tokens + padding):.1f}% of the tokens are padding: too few documents fit together into "
            f"samples of {counted(config.seq_len_tokens, 'token')}. To pad less, {fix}",
        )
    return ()


def explain(config: Config) -> Sequence[str]:
    """Describe the packing."""
    way = {
        "best_fit": "best fit, at most 2% padding",
        "whole": "best fit, no document that fits is split",
        "concat": "concatenated documents",
    }[config.pack]
    return (
        f"samples of {counted(config.seq_len_tokens, 'token')} ({way}), shards of about "
        f"{counted(config.shard_tokens, 'token')}",
    )


def _check_name(what: str, name: str) -> None:
    if len(name.encode()) > NAME_BYTES:
        raise UserError(
            f"the name of the {what} {name!r} has {len(name.encode())} bytes, but the header of a shard has space "
            f"for only {NAME_BYTES}. Choose a shorter name."
        )


STAGE = Sink(
    version=3,
    config=Config,
    libraries=("pyarrow",),
    reads=READS,
    only_kept=True,
    uses=("tokenizer",),
    record_schema=RECORD_SCHEMA,
    counts="shard_groups",
    layout=layout,
    emit=emit,
    build=build,
    files=files,
    facts=facts,
    memory_field="shard_tokens",
    check=check,
    warnings=warnings,
    explain=explain,
)
