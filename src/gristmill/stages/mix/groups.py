"""The groups that shards were made of, out of the catalogue of the shards."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gristmill.stages.mix.numbers import exact
from gristmill.stages.shards.shard_groups import column_domain, parts_of

FILES = {"bin": "tokens.bin", "index": "tokens.index", "lineage": "lineage.parquet"}
"""What a manifest calls the files of a shard, and what they are called in the catalogue."""


@dataclass(frozen=True)
class Group:
    """Documents of one source, tier and weight: what a mixture draws from as one."""

    name: str
    """source, source/tier or source/tier@weight; source+domain/tier@weight where a column has the domains"""
    source: str
    domain: str | None
    tier: str | None
    weight: Fraction
    """How often each of its documents counts."""
    documents: int
    tokens: int
    """Without padding."""
    samples: int
    shards: tuple[dict[str, Any], ...]
    """As the manifest has them."""


def read_groups(outputs: list[Mapping[str, Any]], domains: Mapping[str, str | None]) -> list[Group]:
    """The groups that hold anything, by name; in what order the catalogue has them does not matter."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for output in outputs:
        by_name.setdefault(output["entry"]["group"], []).append(output)
    groups = []
    for name, several in sorted(by_name.items()):
        source, tier, weight = parts_of(name)
        shards = tuple(_shard(output) for output in sorted(several, key=lambda output: output["entry"]["shard"]))
        documents, tokens, samples = (sum(shard[key] for shard in shards) for key in ("documents", "tokens", "samples"))
        if samples and tokens:
            domain = column_domain(name) or domains[source]
            groups.append(Group(name, source, domain, tier, exact(weight), documents, tokens, samples, shards))
    return groups


def _shard(output: Mapping[str, Any]) -> dict[str, Any]:
    hashes = {key: output["files"][name]["hash"] for key, name in FILES.items()}
    return {**hashes, **{key: output["metrics"][key] for key in ("samples", "tokens", "documents")}}
