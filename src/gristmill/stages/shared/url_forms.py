"""Reads URLs as browsers do: their hosts, and one normal form for all spellings of an address."""

import re
from itertools import groupby
from stringprep import in_table_b1
from typing import Annotated, Literal
from unicodedata import combining, normalize
from urllib.parse import quote, unquote_to_bytes

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator

from gristmill.kernels.text.unicode_data import nfc, per_known
from gristmill.kernels.urls.normal import FRAGMENT, HASHBANG, NO_FRAGMENT, normal_urls, odd_hosts
from gristmill.kernels.urls.parts import HOST, HOST_END, cut, split_urls
from gristmill.kernels.urls.spelling import names
from gristmill.stages.buffers import bytes_of, strings
from gristmill.stages.config_types import StageConfig

_FRAGMENTS = {"drop": NO_FRAGMENT, "hashbang": HASHBANG, "keep": FRAGMENT}
_MAY_COMPOSE = r"%(?:C[CD]|D[26-9A-F]|E[0-2AF]|E3%8(?:2%9[9A]|0%A[A-F])|F)|[^\x00-\x7F]"
"""The first bytes, in a normal form, of characters that NFC changes or joins with the character before."""
_HIGH = re.compile("(?:%[89A-F][0-9A-F])+")
_LONG = 1000
"""In a URL of more characters, combining marks are sorted before NFC."""
_FOLDED = {"ß": "ß", "ẞ": "ß", "ς": "ς"}
"""Letters of hosts whose lower case differs from their case folding (UTS 46)."""
_IDEOGRAPHIC_STOP = "\u3002"
_MOST_LABEL = 63
"""The most characters of a label (RFC 1035); encoding takes quadratic time, so longer ones are left alone."""

TRACKING = (
    "utm_*", "gclid", "gclsrc", "gbraid", "wbraid", "dclid", "_ga", "_gl", "_gac", "srsltid",  # Google
    "fbclid", "fb_action_ids", "fb_action_types", "fb_ref", "fb_source", "igshid", "igsh",  # Facebook, Instagram
    "msclkid", "yclid", "ymclid", "_openstat", "twclid", "ttclid", "li_fat_id", "ref_src", "ref_url",
    "mc_cid", "mc_eid", "mkt_tok", "_hsenc", "_hsmi", "hsctatracking", "__hs*", "vero_id", "vero_conv",  # mailings
    "wickedid", "oly_anon_id", "oly_enc_id", "rb_clickid", "s_cid", "ml_subscriber*", "_branch_match_id",
    "mtm_*", "pk_campaign", "pk_kwd", "piwik_*", "matomo_*", "hsa_*", "at_campaign*", "at_medium", "epik",
    "phpsessid", "jsessionid", "aspsessionid*", "cfid", "cftoken",  # sessions; not sid, which names stories as well
)  # fmt: skip
"""Parameters that track visitors and do not select content."""


def _checked(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        stem = pattern.removesuffix("*")
        if not stem:
            raise ValueError(f"{pattern!r} would drop every parameter, so that different pages would have one URL")
        if "*" in stem or not stem.isascii():
            raise ValueError(f"{pattern!r} is not a parameter name. Use ASCII, with * only at the end as a wildcard")
    return patterns


class UrlForm(StageConfig):
    """What counts as the same address."""

    tracking: Annotated[tuple[str, ...], AfterValidator(_checked)] = TRACKING
    """Names of parameters to ignore, in the query or in a path (`;jsessionid=`), in upper or lower case; `utm_*` means
    all that begin with `utm_`. Your list replaces the built-in one."""
    sort_query: bool = True
    """Whether to ignore the order of parameters with different names."""
    strip_www: bool = False
    """Whether `www.example.com` and `example.com` are the same host."""
    fragments: Literal["drop", "hashbang", "keep"] = "hashbang"
    """How to treat the part after `#`. drop: ignore it; hashbang: only `#!…` counts, since it names a separate page;
    keep: it always counts, for sources that split a page into documents by fragment."""


def normal_forms(urls: pa.Array, config: UrlForm) -> pa.Array:
    """The normal forms of URLs, equal for all spellings of one address; empty for URLs without one."""
    return forms_of_plain(plain_urls(urls), config)


def forms_of_plain(urls: pa.Array, config: UrlForm) -> pa.Array:
    """The same for URLs that `plain_urls` returned."""
    fragments = _FRAGMENTS[config.fragments]
    data, offsets = bytes_of(urls)
    ends, data = normal_urls(data, offsets, names(config.tracking), config.sort_query, config.strip_www, fragments)
    forms = strings(ends.astype(np.int32), data)
    odd = pc.match_substring_regex(forms, _MAY_COMPOSE)
    composed = pa.array([_composed(form) for form in forms.filter(odd).to_pylist()], pa.string())
    return pc.replace_with_mask(forms, odd, composed) if len(composed) else forms


def hosts_of(urls: pa.Array) -> pa.Array:
    """The hosts of URLs in lower case; null for URLs without a host."""
    data, offsets = bytes_of(urls)
    spans = split_urls(data, offsets)
    begins, ends = spans[:, HOST].copy(), spans[:, HOST_END].copy()  # contiguous, like those of the other callers
    return strings(*cut(data, begins, ends), valid=begins < ends)


def plain_urls(urls: pa.Array) -> pa.Array:
    """The URLs as browsers read them: without tabs and line breaks, and with hosts that are not ASCII or are written in
    %XX converted to their IDN form (`xn--`), if they have one.

    These hosts are converted one by one in Python, since a crawl has only a handful of them per million URLs.
    """
    urls = without_breaks(urls)
    data, offsets = bytes_of(urls)
    spans = split_urls(data, offsets)
    odd = odd_hosts(data, spans)
    if not odd.any():
        return urls
    changed = []
    for row in np.flatnonzero(odd).tolist():
        whole = bytes(data[offsets[row] : offsets[row + 1]])
        begin, end = (int(spans[row, column] - offsets[row]) for column in (HOST, HOST_END))
        changed.append((whole[:begin] + _idn(whole[begin:end]) + whole[end:]).decode())
    return pc.replace_with_mask(urls, pa.array(odd), pa.array(changed, pa.string()))


def without_breaks(urls: pa.Array) -> pa.Array:
    """The URLs without tabs and line breaks, which browsers ignore."""
    has_breaks = bytes_of(urls)[0].min(initial=255) <= ord("\r")
    return pc.replace_substring_regex(urls, "[\t\n\r]", "") if has_breaks else urls


def _compatible(name: str) -> str:
    return normalize("NFKC", name)


def _idn(host: bytes) -> bytes:
    """A host as browsers write it (UTS 46, nontransitional); a host that is not made of labels is unchanged."""
    try:
        name = per_known(_compatible, unquote_to_bytes(host).decode())
    except UnicodeDecodeError:
        return host
    folded = "".join(_FOLDED.get(sign, per_known(str.casefold, sign)) for sign in name if not in_table_b1(sign))
    name = per_known(_compatible, folded).replace(_IDEOGRAPHIC_STOP, ".")
    if not all(sign >= "\x80" or sign.isalnum() or sign in "-._" for sign in name):
        return host
    return ".".join(
        label if label.isascii() or len(label) > _MOST_LABEL else f"xn--{label.encode('punycode').decode()}"
        for label in name.split(".")
    ).encode()


def _composed(form: str) -> str:
    """Put a normal form into Unicode NFC: `e%CC%81` becomes `%C3%A9`. Invalid UTF-8 bytes are unchanged."""
    read = _HIGH.sub(lambda run: unquote_to_bytes(run[0]).decode("utf-8", "surrogateescape"), form)
    composed = nfc(per_known(_in_order, read) if len(read) > _LONG else read)
    if composed == read:
        return form
    return quote(composed.encode("utf-8", "surrogateescape"), safe="!#$%&'()*+,/:;=?@[]")


def _in_order(text: str) -> str:
    """The text in NFD with its combining marks sorted; Python takes quadratic time for unsorted marks."""
    runs = groupby("".join(normalize("NFD", char) for char in text), lambda char: combining(char) > 0)
    return "".join(char for _, run in runs for char in sorted(run, key=combining))
