"""Reads the groups of a corpus from the catalogue of its shards."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gristmill.stages.mix.numbers import exact
from gristmill.stages.shards.shard_groups import column_domain, parts_of

FILES = {"bin": "tokens.bin", "index": "tokens.index", "lineage": "lineage.parquet"}
"""The files of a shard: their names in a manifest and in the catalogue."""


@dataclass(frozen=True)
class MixGroup:
    """The documents of one source, tier and weight, from which a mixture draws samples."""

    name: str
    """source, source/tier or source/tier@weight; source+domain/tier@weight where a column has the domains"""
    source: str
    domain: str | None
    tier: str | None
    weight: Fraction
    """How often its documents are drawn, relative to others."""
    documents: int
    tokens: int
    """Without padding."""
    samples: int
    split: int
    """Documents that fit into a sample and are split."""
    shards: tuple[dict[str, Any], ...]
    """The shards as entries of the manifest."""


def read_groups(outputs: list[Mapping[str, Any]], domains: Mapping[str, str | None]) -> list[MixGroup]:
    """The groups that are not empty, sorted by name."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for output in outputs:
        by_name.setdefault(output["entry"]["group"], []).append(output)
    groups = []
    for name, several in sorted(by_name.items()):
        source, tier, weight = parts_of(name)
        shards = tuple(_shard(output) for output in sorted(several, key=lambda output: output["entry"]["shard"]))
        counted = ("documents", "tokens", "samples", "split_to_fill")
        documents, tokens, samples, split = (sum(output["metrics"][key] for output in several) for key in counted)
        if samples and tokens:
            domain = column_domain(name) or domains[source]
            groups.append(
                MixGroup(name, source, domain, tier, exact(weight), documents, tokens, samples, split, shards)
            )
    return groups


def _shard(output: Mapping[str, Any]) -> dict[str, Any]:
    hashes = {key: output["files"][name]["hash"] for key, name in FILES.items()}
    return {**hashes, **{key: output["metrics"][key] for key in ("samples", "tokens", "documents")}}
