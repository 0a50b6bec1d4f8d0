"""A pool that knows the domain of every piece, so that any mixture can be drawn from it, and text to judge them by.

The pool is thinned as that of an ablation (pool.py): it represents all that the mixture of a recipe draws. A mixture
that gives a domain more than the recipe does repeats its documents, as the real training would. Some documents of each
domain are held out, and with them every copy in any domain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gristmill.errors import UserError
from gristmill.loader.loader import Loader
from gristmill.shardformat.manifest import Manifest
from gristmill_ablate.proxy.pool import Pool, documents_of, mixed
from gristmill_ablate.proxy.stream import occurrences

Array = np.ndarray[Any, Any]

HELD_SHARE = 0.1
"""Of the tokens of a domain, at most so many are held out."""
LEAST_DOCUMENTS = 8
"""Documents of a domain that are in the pool, where it has as many: a proxy learns nothing from a single one."""


@dataclass(frozen=True, kw_only=True)
class DomainPool(Pool):
    """A pool with domains, and held-out documents."""

    held_tokens: Array
    held_starts: Array
    """Where each held-out document begins, and at the end their number of tokens."""
    held_domain: Array
    shared: Array
    """Of the documents of each domain (row), the share that each domain (column) has, too."""


def draw(pool: Pool, shares: Sequence[float], tokens: int) -> Pool:
    """So many tokens with these shares of the domains.

    In each domain, the occurrences of a document are spread evenly: whatever share of a domain is drawn, what the
    recipe repeats four times as often as the rest of the domain is repeated four times as often.
    """
    lengths = np.diff(pool.starts)
    pieces, ends = [], []
    for number, share in enumerate(shares):
        own = np.flatnonzero(pool.domain == number)
        own = own[_spread(pool.keys[own])]
        until = np.cumsum(lengths[own])
        rounds, rest = divmod(round(share * tokens), int(until[-1]))
        count = int(np.searchsorted(until, rest))
        taken = np.concatenate([*[own] * rounds, own[: count + (rest > 0)]])
        last = pool.starts[taken + 1].copy()
        if rest:
            last[-1] -= until[count] - rest
        pieces.append(taken)
        ends.append(last)
    chosen, end = np.concatenate(pieces), np.concatenate(ends)
    begin = pool.starts[chosen]
    slices = [pool.tokens[first:last] for first, last in zip(begin.tolist(), end.tolist(), strict=True)]
    starts = np.concatenate([[0], np.cumsum(end - begin)])
    of_piece = {"keys": pool.keys[chosen], "domain": pool.domain[chosen], "phases": np.zeros(len(chosen), np.int32)}
    return replace(pool, tokens=np.concatenate(slices), starts=starts, **of_piece)


def _spread(keys: Array) -> Array:
    """An order in which the pieces of each key are spread evenly, the first of them anywhere."""
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    first = (mixed(keys) >> np.uint64(11)) * 2.0**-53
    return np.argsort((occurrences(keys) + first) / counts[inverse], kind="stable")


def thin_domains(manifest: Manifest, tokens: int, held_tokens: int) -> DomainPool:
    """The pool with about so many tokens, and up to `held` tokens of each domain that are held out."""
    names = tuple(sorted({group.domain or "" for group in manifest.drawn}))
    by_group = {group.name: names.index(group.domain or "") for group in manifest.drawn}
    with Loader(manifest.location, manifest_hash=manifest.hash, threads=0) as loader:
        numbers, keys, lengths = documents_of(loader)
        domain = np.zeros(len(keys), np.int64)
        for sample in map(loader.sample, range(loader.samples)):
            for document in sample.doc_ids:
                domain[numbers[document.tobytes()]] = by_group[sample.group]
        is_held = np.isin(
            keys, np.concatenate([_held(keys, lengths, domain == index, held_tokens) for index in range(len(names))])
        )
        kept = _kept(keys, lengths, domain, ~is_held, tokens)
        for index, name in enumerate(names):
            if not (kept & (domain == index)).any():
                raise UserError(
                    f"the domain {name} has too few documents to train on some and hold out others, so "
                    "nothing was trained. Add text to it, or count it as a part of another domain."
                )
        pieces: list[Array] = []
        owners: list[int] = []
        apart: dict[int, dict[int, Array]] = {}
        for sample in map(loader.sample, range(loader.samples)):
            rows = zip(sample.doc_ids, sample.doc_offsets.tolist(), sample.doc_spans.tolist(), strict=True)
            for document, offset, (start, stop) in rows:
                number = numbers[document.tobytes()]
                if kept[number]:
                    pieces.append(np.array(sample.tokens[start:stop]))
                    owners.append(number)
                elif is_held[number]:
                    apart.setdefault(number, {})[offset] = np.array(sample.tokens[start:stop])
    # A copy says nothing new, so each held-out text counts once.
    once = {(int(keys[number]), int(domain[number])): number for number in sorted(apart, reverse=True)}
    texts = [np.concatenate([piece for _, piece in sorted(apart[number].items())]) for number in sorted(once.values())]
    owner = np.array(owners)
    starts, held_starts = (np.concatenate([[0], np.cumsum([*map(len, spans)])]) for spans in (pieces, texts))
    return DomainPool(
        np.concatenate(pieces),
        starts,
        keys[owner],
        np.zeros(len(owner), np.int32),
        np.zeros(1, bool),
        int(manifest.tokenizer["vocab_size"]),
        int(manifest.tokenizer["end_of_document"]),
        names,
        domain[owner],
        held_tokens=np.concatenate(texts),
        held_starts=held_starts,
        held_domain=domain[sorted(once.values())],
        shared=shared_documents(keys, domain, len(names)),
    )


def _held(keys: Array, lengths: Array, in_domain: Array, most_tokens: int) -> Array:
    """The keys of a domain's documents that are held out: the greatest, which a thinned pool has last."""
    order = np.flatnonzero(in_domain)[np.argsort(keys[in_domain], kind="stable")[::-1]]
    most = min(most_tokens, HELD_SHARE * int(lengths[order].sum()))
    return keys[order[: 1 + int(np.searchsorted(np.cumsum(lengths[order]), most))]]


def _kept(keys: Array, lengths: Array, domain: Array, may: Array, tokens: int) -> Array:
    """The documents of the pool: those with the least keys, and a few of every domain."""
    order = np.flatnonzero(may)[np.argsort(keys[may], kind="stable")]
    enough = int(np.searchsorted(np.cumsum(lengths[order]), min(tokens, int(lengths[order].sum()))))
    kept: Array = may & (keys <= keys[order[min(enough, len(order) - 1)]])
    for number in range(int(domain.max()) + 1):
        kept[order[domain[order] == number][:LEAST_DOCUMENTS]] = True
    return kept


def shared_documents(keys: Array, domain: Array, count: int) -> Array:
    """Of the documents of each domain (row), the share that each domain (column) has, too."""
    of = [np.unique(keys[domain == number]) for number in range(count)]
    return np.array([[np.isin(keys_of, other).mean() for other in of] for keys_of in of])
