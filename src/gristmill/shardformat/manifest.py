"""The manifest: the shards, the phases that draw them, and the locations of the files."""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.shardformat.locations import beside, manifest_at, read_bytes

FORMAT, VERSION = "gristmill manifest", 1
MADE_BY = "made_by"
"""The field with the version that made a manifest, its recipe, suites and steps; enters no hash."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A `.bin`, its index and its lineage table, each by the sha256 of its content."""

    bin: str
    index: str
    lineage: str
    samples: int
    tokens: int
    documents: int


@dataclass(frozen=True)
class Group:
    """Documents that are drawn at the same rate."""

    name: str
    source: str
    domain: str | None
    tier: str | None
    samples: int
    shards: tuple[Shard, ...]


@dataclass(frozen=True)
class Phase:
    """A stretch of training with one mixture."""

    name: str
    samples: int
    weights: dict[str, int]
    """Weights by group, without those of 0."""
    learning_rate: dict[str, Any] | None


@dataclass(frozen=True)
class Manifest:
    """Everything that a loader knows before it opens a shard."""

    location: str
    hash: str
    recipe: str
    seed: int
    tokenizer: dict[str, Any]
    seq_len: int
    token_bytes: int
    groups: tuple[Group, ...]
    phases: tuple[Phase, ...]
    files: dict[str, str] = field(repr=False)
    made_by: dict[str, Any] = field(default_factory=dict, repr=False)
    """The version that made it first: version, recipe_hash, recipe_text, suites, steps (docs/shards.md)."""

    @property
    def samples(self) -> int:
        return sum(phase.samples for phase in self.phases)

    @property
    def head(self) -> dict[str, Any]:
        """The facts about all samples, by their names in the file."""
        return {name: getattr(self, name) for name in ("seed", "tokenizer", "seq_len", "token_bytes")}

    @property
    def tokenizer_hashes(self) -> tuple[str, ...]:
        """The hash of the tokenizer that encoded, and of the same one after reserved slots were named."""
        return tuple(self.tokenizer[name] for name in ("hash", "named") if name in self.tokenizer)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Numbers of the groups, by name."""
        return {group.name: number for number, group in enumerate(self.groups)}

    @cached_property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(group.source for group in self.groups))

    @property
    def drawn(self) -> tuple[Group, ...]:
        """The groups that at least one phase draws from."""
        names = {name for phase in self.phases if phase.samples for name in phase.weights}
        return tuple(group for group in self.groups if group.name in names)

    def where(self, digest: str) -> str:
        """The path or location of a file."""
        try:
            return beside(self.location, self.files[digest])
        except KeyError:
            raise UserError(
                f"{self.location} has no location for the file {digest}, so a shard is missing. "
                "Publish the manifest again."
            ) from None

    def bin_bytes(self, shard: Shard) -> int:
        return shard.samples * self.seq_len * self.token_bytes


def manifest_hash(content: dict[str, Any]) -> str:
    """The hash of a manifest's content, without the file locations and the version that made it: a version is a hash of
    all that its run made, also of this.
    """
    return _hash_of({key: value for key, value in content.items() if key not in ("hash", "files", MADE_BY)})


def seal_of(content: dict[str, Any]) -> str:
    """The seal of what a manifest says about the version that made it, which detects changes."""
    return _hash_of([content["hash"], {key: value for key, value in content[MADE_BY].items() if key != "seal"}])


def _hash_of(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def is_sealed(content: dict[str, Any]) -> bool:
    """Whether nobody changed what a manifest says about the version that made it; it may say nothing."""
    made_by = content.get(MADE_BY)
    return made_by is None or (isinstance(made_by, dict) and made_by.get("seal") == seal_of(content))


def are_alike(written: bytes, content: bytes) -> bool:
    """Whether two whole manifests name the same samples and files; several versions may have made them."""
    try:
        one, other = json.loads(written), json.loads(content)
    except (ValueError, RecursionError):
        return False
    if not isinstance(one, dict) or not is_sealed(one):
        return False
    return {**one, MADE_BY: None} == {**other, MADE_BY: None}


def read_manifest(location: str | os.PathLike[str]) -> Manifest:
    """Read and check a manifest. Raises UserError if it is not one, or was edited by hand."""
    found = manifest_at(location)
    try:
        content = json.loads(read_bytes(found))
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{found} is not JSON ({error}), so it is not a manifest or is damaged. Name the manifest.json that "
            "a run wrote, or its folder; if it is damaged, run the recipe again."
        ) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UserError(f"{found} is not a manifest of Gristmill, so there is nothing to load. Name another file.")
    if content.get("format_version") != VERSION:
        raise UserError(
            f"{found} has format {content.get('format_version')}, but this loader reads format {VERSION}. "
            "Use the version of Gristmill that wrote it, or make the manifest again."
        )
    if content.get("hash") != manifest_hash(content) or not is_sealed(content):
        raise UserError(
            f"{found} was changed after it was written: its content does not match its hash. "
            "Samples could be lost or repeated. Run the recipe again to write a new manifest."
        )
    try:
        manifest = _parsed(found, content)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UserError(
            f"{found} has a missing or wrong field ({type(error).__name__}: {error}), so it cannot be loaded. "
            "Make the manifest again."
        ) from None
    _check(manifest)
    return manifest


def _parsed(location: str, content: dict[str, Any]) -> Manifest:
    groups = tuple(
        Group(
            name=_text(group["name"]),
            source=_text(group["source"]),
            domain=group["domain"],
            tier=group["tier"],
            samples=int(group["samples"]),
            shards=tuple(
                Shard(
                    _text(s["bin"]),
                    _text(s["index"]),
                    _text(s["lineage"]),
                    int(s["samples"]),
                    int(s["tokens"]),
                    int(s["documents"]),
                )
                for s in group["shards"]
            ),
        )
        for group in content["groups"]
    )
    phases = tuple(
        Phase(
            name=_text(phase["name"]),
            samples=int(phase["samples"]),
            weights={name: int(weight) for name, weight in phase["weights"].items() if weight},
            learning_rate=phase.get("learning_rate"),
        )
        for phase in content["phases"]
    )
    seq_len, token_bytes = int(content["seq_len"]), int(content["token_bytes"])
    tokenizer = dict(content["tokenizer"])
    files = {_text(digest): _text(location) for digest, location in content["files"].items()}
    return Manifest(
        location,
        content["hash"],
        _text(content["recipe"]),
        int(content["seed"]),
        {"hash": tokenizer["hash"], "padding": tokenizer["padding"], **tokenizer},
        seq_len,
        token_bytes,
        groups,
        phases,
        files,
        content.get(MADE_BY) or {},
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not text")
    return value


def _check(manifest: Manifest) -> None:
    for fault in _faults(manifest):
        raise UserError(f"{manifest.location} {fault}, so it cannot be loaded. Make the manifest again.")
    if not manifest.samples:
        raise UserError(
            f"{manifest.location} has no samples in any phase, so there is nothing to train on. Set mix.tokens."
        )


def _faults(manifest: Manifest) -> Iterator[str]:
    """Numbers that contradict each other, one message each."""
    known = {group.name: group.samples for group in manifest.groups}
    if len(known) < len(manifest.groups):
        yield "names a group twice"
    if manifest.token_bytes not in (2, 4):
        yield f"has tokens of {manifest.token_bytes} bytes (only 2 and 4 are supported)"
    if manifest.seq_len < 1:
        yield f"has samples of {counted(manifest.seq_len, 'token')}"
    for group in manifest.groups:
        counts = [shard.samples for shard in group.shards]
        if sum(counts) != group.samples or min(counts, default=0) < 0:
            says = counted(group.samples, "sample")
            yield f"says that group {group.name} has {says}, but its shards have {sum(counts):,}"
    for phase in manifest.phases:
        if phase.samples < 0 or (phase.samples and not phase.weights):
            groups = counted(len(phase.weights), "group")
            yield f"draws {counted(phase.samples, 'sample')} in phase {phase.name} from {groups}"
        for name, weight in phase.weights.items():
            if weight < 0 or not known.get(name):
                draws = f"draws {counted(weight, 'sample')} of group {name} in phase {phase.name}"
                yield f"{draws}, which has {known.get(name, 0):,}"
