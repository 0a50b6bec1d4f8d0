"""Samples the documents that the tokenizer is trained on, and those that are held out to evaluate it.

Each domain has a budget in bytes, so that rare but important text (mathematics, code, rare scripts) gets more than its
share of the corpus. The documents of a domain are sorted by a hash of seed and doc_id. Training takes them from the low
end until the budget is full. Held-out text is taken first, from the high end: a share of the budget, or of the domain
if that is smaller, and at least one document if there are two. A larger budget takes more from both ends, so no
document changes sides before the ends meet.

The decision on a document depends on all documents of its domain with a lower hash. Therefore the bytes and documents
of BINS ranges of the hash are tallied, and one reducer decides a range, knowing the sums of the lower ranges.

    emit     sends a record for each document: domain, bytes, hash; the key is its range
    reduce   decides on train, held_out or neither
"""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from gristmill.counted import counted
from gristmill.stages.contract import Bytes, Exchange, StageConfig
from gristmill.stages.doc_order import doc_order
from gristmill.warned import Warnings

Array = np.ndarray[Any, Any]

READS = ("doc_id", "source", "text_bytes")
RECORD_SCHEMA = pa.schema([("domain", pa.int16()), ("bytes", pa.int64()), ("hash", pa.uint64()), ("tie", pa.uint64())])
"""`tie` orders documents with the same hash."""
SCHEMA = pa.schema([("split", pa.string())])
"""train, held_out, or null for a document that is not in the sample."""

TRAIN, HELD_OUT = "train", "held_out"
BINS = 256
"""The number of ranges of the hash. Of 3 billion documents, one range has 12 million: 0.4 GB."""
_TOP = np.uint64(56)


class SampleOptions(StageConfig):
    """The options of the sample that users set."""

    sample_bytes: Annotated[dict[str, Annotated[Bytes, Field(ge=0)]], Field(min_length=1)]
    """Bytes of text to train on, by domain of the sources; 0 leaves out a domain."""
    held_out_share: Annotated[float, Field(ge=0, le=0.5)] = 0.01
    """The share of each domain's budget that is held out and never trained on."""
    seed: int = 0
    """Another seed samples other documents."""


class Config(SampleOptions):
    """The options, and the domains of the sources."""

    domains: dict[str, str]
    """The domain of each source; set by the recipe's loader."""


def emit(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """Send each document with text to the range of its hash."""
    domain = domain_numbers(batch.column("source"), config.domains, sampled_domains(config))
    sizes = batch.column("text_bytes").fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    rows = np.flatnonzero((domain >= 0) & (sizes > 0))
    hashes, ties = doc_order(batch.column("doc_id"), config.seed)
    columns = {
        "key": hashes[rows] & ~np.uint64(2**56 - 1),
        "row": rows.astype(np.int32),
        "domain": domain[rows],
        "bytes": sizes[rows],
        "hash": hashes[rows],
        "tie": ties[rows],
    }
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns.values()], names=list(columns))


def tally(batch: pa.RecordBatch, records: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Count the bytes and documents of each domain in each range of the hash."""
    domain, size, key = (records.column(name).to_numpy() for name in ("domain", "bytes", "key"))
    found: dict[str, Any] = {}
    for number in np.unique(domain):
        here = domain == number
        bins, of = np.unique(key[here] >> _TOP, return_inverse=True)
        counts = np.bincount(of), np.bincount(of, size[here]).astype(np.int64)
        found[str(number)] = {
            str(one): {"documents": int(many), "bytes": int(total)}
            for one, many, total in zip(bins, *counts, strict=True)
        }
    return found


def totals(counts: dict[str, Any], config: Config) -> dict[str, Any]:
    """For each domain, the documents and bytes below each range of the hash, and in total."""
    found = {}
    for number, bins in counts.items():
        sums = {
            what: np.cumsum([bins.get(str(one), {}).get(what, 0) for one in range(BINS)]).tolist()
            for what in ("documents", "bytes")
        }
        found[number] = {what: [0, *through] for what, through in sums.items()}
    return found


def reduce(records: pa.Table, config: Config, totals: dict[str, Any]) -> tuple[pa.Table, dict[str, Any]]:
    """The split of the sampled documents in some ranges of the hash; also count available and sampled text."""
    domain, size, hashes, tie, key = (records.column(name).to_numpy() for name in (*RECORD_SCHEMA.names, "key"))
    split = np.full(len(domain), 2, np.int8)
    counts: dict[str, Any] = {}
    of_bin = key >> _TOP
    for number, name in enumerate(sampled_domains(config)):
        for one in np.unique(of_bin[domain == number]).tolist():
            places = np.flatnonzero((domain == number) & (of_bin == one))
            places = places[np.lexsort((tie[places], hashes[places]))]
            all_of = totals[str(number)]
            below, total = all_of["documents"][one], all_of["documents"][-1]
            below_bytes, total_bytes = all_of["bytes"][one], all_of["bytes"][-1]
            through = below_bytes + np.cumsum(size[places])
            from_here = total_bytes - through + size[places]
            held = from_here <= int(config.held_out_share * min(config.sample_bytes[name], total_bytes))
            if config.held_out_share > 0 and total > 1 and below + len(places) == total:
                held[-1] = True
            train = ~held & (through <= config.sample_bytes[name])
            split[places[train]], split[places[held]] = 0, 1
            sets = {"available": np.ones(len(places), np.bool_), TRAIN: train, HELD_OUT: held}
            for what, mask in sets.items():
                so_far = counts.setdefault(name, {}).setdefault(what, {"documents": 0, "bytes": 0})
                so_far["documents"] += int(mask.sum())
                so_far["bytes"] += int(size[places[mask]].sum())
    rows = np.flatnonzero(split < 2)
    answers = records.select(["part", "row"]).take(rows)
    answers = answers.append_column("split", pa.array([TRAIN, HELD_OUT]).take(pa.array(split[rows])))
    return answers, {"domains": counts}


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    """Warn if the corpus has less text than a budget, or too little for evaluation."""
    warned, short = Warnings(), []
    for name in sampled_domains(config):
        counts, budget = found.get("domains", {}).get(name), config.sample_bytes[name]
        if counts is None:
            warned.add("no_text", f"the domain {name} has no text left, so the tokenizer learns nothing from it")
            continue
        has, train, held = counts["available"]["bytes"], counts[TRAIN]["bytes"], counts[HELD_OUT]["bytes"]
        planned, wanted = (int(config.held_out_share * some) for some in (budget, min(budget, has)))
        if has < budget:
            less = f", {held:,} of them held out instead of {planned:,}" if held < 0.9 * planned else ""
            short.append(f"{name} has {has:,} bytes, less than its budget of {budget:,}; all are used{less}")
        elif train < 0.9 * budget - held:
            warned.add(
                "sample_bytes",
                f"only {train:,} of {budget:,} bytes of the domain {name} are used, because the next document does "
                "not fit into the rest of the budget. Raise the budget",
            )
        if config.held_out_share > 0 and not held:
            warned.add("held_out", f"the domain {name} has only one document, so none is held out")
        documents = counts[HELD_OUT]["documents"]
        if 0 < held < 0.9 * wanted:
            warned.add(
                "held_out",
                f"only {held:,} of {wanted:,} bytes of the domain {name} are held out "
                f"({counted(documents, 'document')}), because the next document does not fit: measurements on them "
                "are rough. Raise held_out_share",
            )
    if short:  # in one line, since a first recipe often has this for every domain
        warned.add("sample_bytes", f"the domain {'. The domain '.join(short)}")
    return warned


def explain(config: Config) -> Sequence[str]:
    """Describe the budgets."""
    share = config.held_out_share
    return [
        f"{name}: {config.sample_bytes[name]:,} bytes to train on, {int(share * config.sample_bytes[name]):,} held out"
        for name in sampled_domains(config)
    ]


def sampled_domains(config: Config) -> list[str]:
    """The domains with a budget, in the order of their numbers."""
    return sorted(name for name, budget in config.sample_bytes.items() if budget)


def domain_numbers(source: pa.Array, domains: dict[str, str], names: Sequence[str]) -> Array:
    """For each row, the position of its source's domain in `names`; -1 if it is not in `names`."""
    encoded = source.dictionary_encode()
    known = [domains.get(name) for name in encoded.dictionary.to_pylist()]
    numbers = {name: number for number, name in enumerate(names)}
    places = np.array([numbers.get(name or "", -1) for name in known], np.int16)
    return places[encoded.indices.to_numpy()] if len(source) else np.zeros(0, np.int16)


STAGE = Exchange(
    version=1,
    config=Config,
    reads=READS,
    only_kept=True,
    judges=False,
    record_schema=RECORD_SCHEMA,
    schema=SCHEMA,
    emit=emit,
    tally=tally,
    totals=totals,
    reduce=reduce,
    warnings=warnings,
    explain=explain,
)
