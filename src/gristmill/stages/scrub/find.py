"""Turns candidates into findings: a finder for each shape checks whether a candidate is what it looks like."""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial, reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gristmill.kernels.scrub import shapes
from gristmill.kernels.scrub.candidates import find_candidates
from gristmill.stages.buffers import bytes_of
from gristmill.stages.scrub import addresses, cards, email_addresses, national_ids, phones, secrets, wallets
from gristmill.stages.scrub.finding import PiiSpan, ScannedText, is_near

_FIRST = ("secret", "email", "iban", "card", "ip", "national_id", "wallet", "phone")
"""Which type wins if several claim the same span."""
_ORDER = {type_: place for place, type_ in enumerate(_FIRST)}


_ABOUT = reduce(or_, [cards.ABOUT_CARDS, phones.ABOUT, *(rule.about for rule in national_ids.NUMBERS)])
"""Every word that gives some number a meaning."""


class SearchOptions(NamedTuple):
    """What to search for."""

    types: frozenset[str]
    kept_domains: tuple[str, ...] = email_addresses.EXAMPLES


@lru_cache(maxsize=1)
def _openings() -> Any:
    return shapes.openings(secrets.PREFIXES)


def find_all(
    texts: pa.Array, regions: Callable[[int], tuple[str, ...]], options: SearchOptions
) -> Iterator[tuple[int, list[PiiSpan]]]:
    """Rows with findings, each with its findings in order and without overlap.

    `regions`: for a row, the countries whose phone numbers may occur without a country code.
    """
    data, offsets = bytes_of(texts)
    edge = np.zeros(64, np.uint8)
    found = find_candidates(data, offsets, shapes.CLASSES, _openings(), edge, "secret" in options.types)
    edges = np.flatnonzero(np.diff(found[:, 0], prepend=-1, append=len(texts)))
    listed = found.tolist()
    by_row = {
        listed[edge][0]: listed[edge:stop] for edge, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    }
    for row, candidates in by_row.items():
        begin, end = int(offsets[row]), int(offsets[row + 1])
        text = ScannedText(data[begin:end].tobytes(), partial(regions, row))
        places = ((kind, start - begin, stop - begin) for _, kind, start, stop in candidates)
        claims = [one for one in _claims(text, places, options) if one.type in options.types]
        if claims:
            yield row, without_overlaps(claims, end - begin)


def _claims(text: ScannedText, places: Iterable[tuple[int, int, int]], options: SearchOptions) -> Iterator[PiiSpan]:
    data, types = text.data, options.types
    spelt = 0  # the end of the text that was searched for words for signs
    hidden = 0  # the end of the last private key: it contains no candidates
    candidates = list[cards.CardCandidate]()
    for kind, start, stop in places:
        if start < hidden:
            continue
        match kind:
            case shapes.NUMBER:
                yield from _numbers(text, start, stop, types, candidates)
            case shapes.AT:
                yield from email_addresses.find_email(data, start, stop, options.kept_domains)
            case shapes.SPELT if start >= spelt:
                spelt = start + email_addresses.SPELT_STEP
                yield from email_addresses.find_spelt(data, start, options.kept_domains)
            case shapes.LOGIN:
                yield from email_addresses.find_password(data, start, stop)
            case shapes.COLONS:
                yield from addresses.find_ipv6(data, start, stop)
            case shapes.TOKEN:
                yield from secrets.find_token(data, start)
            case shapes.WALLET:
                yield from wallets.find_wallet(data, start, stop)
            case shapes.IBAN:
                yield from cards.find_iban(data, start)
            case shapes.CODED:
                yield from national_ids.find_coded(data, start, stop)
            case shapes.KEY:
                for one in secrets.find_private_key(data, start):
                    hidden = one.stop
                    yield one
        if kind in (shapes.TOKEN, shapes.LONG, shapes.WALLET, shapes.CODED, shapes.IBAN) and "secret" in types:
            yield from secrets.find_beside(data, start, stop)
    yield from cards.of_cards(data, candidates)


def _numbers(
    text: ScannedText, start: int, stop: int, types: frozenset[str], candidates: list[cards.CardCandidate]
) -> Iterator[PiiSpan]:
    """Finds what groups of digits are. Possible cards are added to `candidates`, to be judged together."""
    data = text.data
    if data.find(b".", start, stop) >= 0:
        yield from addresses.find_ipv4(data, start, stop)
        if addresses.is_quad(data, start, stop):
            return
    if _is_joined(data, start, stop):
        return
    if stop - start >= 13:
        candidates += cards.find_card(data, start, stop)
        if "card" in types and candidates and candidates[-1].clear and candidates[-1].card[:2] == (start, stop):
            return  # a clear card is nothing else
    if data[start:stop].isdigit() and not is_near(data, start, stop, _ABOUT, 64, 32):
        return  # bare digits mean nothing without a word
    if "national_id" in types:
        yield from national_ids.find_number(data, start, stop)
    if "phone" in types:
        yield from phones.find_phone(text, start, stop)


def _is_joined(data: bytes, start: int, stop: int) -> bool:
    """Whether digits are part of a longer code: a UUID, a part number."""
    before = data[max(0, start - 2) : start]
    if before[1:] in (b"-", b"_") and before[:1].isalnum():
        return True
    return data[stop : stop + 1] in (b"-", b"_") and data[stop + 1 : stop + 2].isalnum()


def without_overlaps(claims: list[PiiSpan], size: int) -> list[PiiSpan]:
    """The claims that do not overlap: the first type wins, then the longer claim, then the earlier one."""
    taken = bytearray(size)
    chosen = []
    for one in sorted(set(claims), key=lambda claim: (_ORDER[claim.type], claim.start - claim.stop, claim.start)):
        if taken.find(1, one.start, one.stop) < 0:
            taken[one.start : one.stop] = b"\1" * (one.stop - one.start)
            chosen.append(one)
    return sorted(chosen)
