"""Assigns each document to a group of the mix: its source, its tier and its weight.

The tier is set by the source, or by the first of its conditions that holds. The weight is how often a document is drawn
relative to others of its tier. Weights are rounded to levels, and each level is a separate group, which the mix draws
more often, so nothing is written twice. A weight between two levels is rounded to either, by a hash of seed and doc_id,
so that the mean weight is the requested one.

    crawl          a source without a tier
    crawl/B        of tier B
    crawl/B@2      of tier B, drawn twice as often
    crawl+math/B   of the domain math, which a column gives

Domains and tiers may be the values of a column. Values become names of files, so characters that names cannot have are
replaced by _.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from gristmill.counted import counted
from gristmill.errors import CannotBeMet
from gristmill.stages.contract import Map, StageConfig
from gristmill.stages.doc_order import doc_order
from gristmill.stages.shared.expressions import parse_condition, parse_value
from gristmill.stages.shared.vectors import ColumnVectors
from gristmill.warned import Warnings

Array = np.ndarray[Any, Any]

SCHEMA = pa.schema([("group", pa.string())])

ELSE = "else"
"""In place of a condition: every document that is left."""
MOST_VALUES = 100
"""Values of a column that has domains or tiers, in a part."""
DOMAIN_CHARS, TIER_CHARS = 50, 20
"""The longest name of a domain or tier of a column."""
_SALT = 0x77656967687473
"""Weights are rounded by a different hash from the one that shuffles."""


class Config(StageConfig):
    source: str
    """The source of the documents; the recipe's loader sets this and the other fields."""
    tier: str | None = None
    """The tier of all its documents."""
    tiers: tuple[tuple[str, str], ...] = ()
    """Or tiers with their conditions, tried in order; the last is `else`."""
    domain_column: str | None = None
    """The column with the domain of each document; where it has no value, the domain is that of the source."""
    tier_column: str | None = None
    """The column with the tier of each document; where it has no value, `tier` is the tier."""
    weight: str | None = None
    """An expression over columns: how often a document is drawn relative to others, which have 1."""
    weight_levels: tuple[Annotated[float, Field(ge=0, le=1000)], ...] = ()
    """The weights of groups, in increasing order, to which weights are rounded."""
    seed: int = 0


def reads(config: Config) -> tuple[str, ...]:
    formulas = [parse_condition(text) for _, text in config.tiers if text != ELSE]
    if config.weight is not None:
        formulas.append(parse_value(config.weight))
    named = [name for formula in formulas for name in formula.columns]
    named += [name for name in (config.domain_column, config.tier_column) if name is not None]
    return tuple(dict.fromkeys((*named, "doc_id", "tokens.tokens")))


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    columns = ColumnVectors(batch)
    tiers: Sequence[str | None] = [name for name, _ in config.tiers] or [config.tier]
    tier = _tiers(columns, config)
    if config.tier_column is not None:
        tiers, tier = _values(batch, config.tier_column, config.tier, TIER_CHARS)
    domains, domain = _values(batch, config.domain_column, None, DOMAIN_CHARS)
    level = _levels(batch, columns, config)
    weights = config.weight_levels or (1.0,)
    names = [
        group_name(config.source, name, weight, value) for value in domains for name in tiers for weight in weights
    ]
    group = pa.array(names, pa.string()).take(pa.array((domain * len(tiers) + tier) * len(weights) + level))
    return pa.RecordBatch.from_arrays([group], schema=SCHEMA)


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Count the documents and tokens of every group, and the weights outside the levels."""
    table = pa.table({"group": answers.column("group"), "tokens": batch.column("tokens.tokens")})
    counted = table.group_by("group", use_threads=False).aggregate([("tokens", "sum"), ([], "count_all")]).to_pylist()
    groups = {
        entry["group"]: {"documents": entry["count_all"], "tokens": entry["tokens_sum"] or 0} for entry in counted
    }
    found: dict[str, Any] = {"groups": {config.source: groups}}
    if config.weight is not None:
        weights = _weights(ColumnVectors(batch), config)
        out = (weights < config.weight_levels[0]) | (weights > config.weight_levels[-1])
        found["weights_cut"] = int(out.sum())
    return found


def warnings(found: Mapping[str, Any], config: Config) -> Sequence[str]:
    """Warn about tiers without documents, and about weights outside the levels."""
    warned = Warnings()
    groups = found.get("groups", {}).get(config.source, {})
    has = {parts_of(name)[1] for name in groups}
    idle = [name for name, _ in config.tiers if name not in has]
    if groups and idle:
        warned.add("absent_name", f"no document has the tier {', '.join(idle)}")
    if found.get("weights_cut"):
        low, high = config.weight_levels[0], config.weight_levels[-1]
        warned.add(
            "weight_cut",
            f"{counted(found['weights_cut'], 'document has', 'documents have')} a weight outside {low:g} to {high:g}; "
            "the nearest level is used. Change shards.weight_levels",
        )
    return warned


def group_name(source: str, tier: str | None, weight: float = 1.0, domain: str | None = None) -> str:
    """How a group is called; no part of it has / or @ or + in it. `domain`: of a column."""
    within = f"+{domain}" if domain is not None else ""
    return source + within + (f"/{tier}" if tier is not None else "") + (f"@{weight:g}" if weight != 1 else "")


def parts_of(group: str) -> tuple[str, str | None, float]:
    """Source, tier and weight of a group."""
    name, _, weight = group.partition("@")
    source, slash, tier = name.partition("/")
    source = source.partition("+")[0]
    return source, tier if slash else None, float(weight) if weight else 1.0


def column_domain(group: str) -> str | None:
    """The domain of a group whose domains are the values of a column; None: that of its source."""
    return group.partition("/")[0].partition("@")[0].partition("+")[2] or None


def _values(
    batch: pa.RecordBatch, column: str | None, default: str | None, most: int
) -> tuple[Sequence[str | None], Array]:
    """The values of a column as names, and the number of each document's; without a column the default."""
    if column is None:
        return [default], np.zeros(batch.num_rows, np.int64)
    held = batch.column(column)
    held = held.dictionary_decode() if pa.types.is_dictionary(held.type) else held
    if any(is_kind(held.type) for is_kind in (pa.types.is_nested, pa.types.is_binary, pa.types.is_floating)):
        raise CannotBeMet(
            f"the column {column} holds {held.type}, which cannot name a domain or a tier. Name a column of texts, "
            "whole numbers or truth values."
        )
    held = held.cast(pa.string()).dictionary_encode()
    found = [_name_of(column, value, most) if value else default for value in held.dictionary.to_pylist()]
    names = list(dict.fromkeys([*found, default]))
    if len(set(found)) > MOST_VALUES:
        raise CannotBeMet(
            f"the column {column} has more than {MOST_VALUES} different values, such as {found[0]} and {found[1]}, and "
            "each would be a domain or tier with separate files. Name a column with fewer values."
        )
    place = np.array([names.index(name) for name in (*found, default)], np.int64)
    return names, place[held.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)]


def _name_of(column: str, value: str, most: int) -> str:
    """The value. One that cannot name files is refused: to change it could make one name of two values."""
    if not re.fullmatch(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{most - 1}}}", value):
        raise CannotBeMet(
            f"the column {column} has the value {value[:100]!r}, and values become file names. Use up to {most} "
            "letters A to Z, digits and . _ -, a letter or digit first; a step of your own can write such a column."
        )
    return value


def _tiers(columns: ColumnVectors, config: Config) -> Array:
    """The number of each document's tier."""
    found = np.full(columns.rows, -1, np.int64)
    for number, (_, text) in enumerate(config.tiers):
        holds = True
        if text != ELSE:
            vector = parse_condition(text).run(columns)
            holds = vector.data if vector.valid is None else vector.data & vector.valid
        found[(found < 0) & holds] = number
    return np.maximum(found, 0)


def _weights(columns: ColumnVectors, config: Config) -> Array:
    """The weight of each document before rounding; 1 if it is unknown."""
    assert config.weight is not None
    vector = parse_value(config.weight).run(columns)
    weights = np.broadcast_to(np.asarray(vector.data, np.float64), columns.rows).copy()
    if vector.valid is not None:
        weights[~vector.valid] = 1.0
    return weights


def _levels(batch: pa.RecordBatch, columns: ColumnVectors, config: Config) -> Array:
    """The number of the level that each document's weight is rounded to."""
    if config.weight is None:
        return np.zeros(batch.num_rows, np.int64)
    levels = np.array(config.weight_levels)
    weights = np.clip(_weights(columns, config), levels[0], levels[-1])
    below = np.clip(np.searchsorted(levels, weights, side="right") - 1, 0, max(len(levels) - 2, 0))
    if len(levels) == 1:
        return below
    share = (weights - levels[below]) / (levels[below + 1] - levels[below])
    chance = (doc_order(batch.column("doc_id"), config.seed ^ _SALT)[0] >> np.uint64(11)) * 2.0**-53
    return np.asarray(below + (chance < share))


STAGE = Map(
    version=1,
    config=Config,
    reads=reads,
    only_kept=True,
    schema=SCHEMA,
    apply=apply,
    metrics=metrics,
    warnings=warnings,
)
