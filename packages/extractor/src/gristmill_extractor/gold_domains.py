"""The domain that owns a page, and splits of pages in which no domain is on two sides.

Pages of one site share their layout: a model that has seen one knows where the text of the others is. So pages are
split by registered domain. If the URL does not give it (a host ending in .invalid, an IP address, no URL), the page is
used: <link rel=canonical>, og:url, <base href>, and then the domain that it links to most often, where links to domains
that it loads images, styles or scripts from count twice. A page without any of these is its own domain.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.stages.shared.public_suffix import registered_domain
from gristmill.stages.shared.urls import hosts_of

KINDS = ("url", "canonical", "og:url", "base", "links", "none")
"""Sources of a page's domain, in order of preference; `none`: its own id is used as the domain."""
EVERYWHERE = frozenset(
    {
        *("facebook.com", "facebook.net", "fbcdn.net", "twitter.com", "x.com", "t.co", "instagram.com", "linkedin.com"),
        *("pinterest.com", "reddit.com", "tumblr.com", "digg.com", "delicious.com", "del.icio.us", "stumbleupon.com"),
        *("technorati.com", "myspace.com", "friendfeed.com", "vk.com", "whatsapp.com", "telegram.me", "t.me"),
        *("google.com", "googleapis.com", "gstatic.com", "googlesyndication.com", "google-analytics.com"),
        *("googletagmanager.com", "googleusercontent.com", "googleadservices.com", "ggpht.com", "doubleclick.net"),
        *("youtube.com", "youtu.be", "ytimg.com", "vimeo.com", "flickr.com", "staticflickr.com", "photobucket.com"),
        *("yahoo.com", "yimg.com", "microsoft.com", "live.com", "bing.com", "apple.com", "amazon.com", "ebay.com"),
        *("amazon-adsystem.com", "images-amazon.com", "media-amazon.com", "amzn.to", "bit.ly", "tinyurl.com"),
        *("feedburner.com", "disqus.com", "gravatar.com", "addthis.com", "sharethis.com", "addtoany.com", "gigya.com"),
        *("wordpress.org", "wp.com", "w.org", "blogger.com", "typepad.com", "sixapart.com", "blogblog.com"),
        *("wikipedia.org", "wikimedia.org", "creativecommons.org", "w3.org", "schema.org", "ogp.me", "purl.org"),
        *("cloudflare.com", "jsdelivr.net", "jquery.com", "bootstrapcdn.com", "unpkg.com", "typekit.net"),
        *("fontawesome.com", "akamaihd.net", "akamai.net", "quantserve.com", "scorecardresearch.com", "outbrain.com"),
        *("sitemeter.com", "statcounter.com", "typekey.com", "blogs.com", "blogwithintegrity.com", "goodreads.com"),
        *("taboola.com", "adobe.com", "mozilla.org", "getfirefox.com", "paypal.com", "archive.org"),
    }
)
"""Registered domains that half of all sites link to or load from; they do not indicate the owner."""
MOST_TAG_CHARACTERS = 2000
_TAG = re.compile(rf"<(a|base|img|link|meta|script)\s([^<>]{{1,{MOST_TAG_CHARACTERS}}})>", re.I)
_ATTRIBUTE = re.compile(
    r"""(?<![\w:-])(content|href|property|rel|src)\s{0,8}=\s{0,8}("[^"]*+|'[^']*+|[^\s"'>]++)""", re.I
)
_ABSOLUTE = re.compile(r"(?:https?:)?//", re.I)


class DomainOf(NamedTuple):
    """The domain of a page, and its source."""

    name: str
    kind: str


class Owned(Protocol):
    """The fields of a page that a split needs."""

    @property
    def set(self) -> str: ...
    @property
    def domain(self) -> str: ...


def domain_of(url: str | None, html: str, record_id: str) -> DomainOf:
    """The registered domain of a page, or the best substitute."""
    (known,) = _domains([url or ""])
    return DomainOf(known, "url") if known else _own(html) or DomainOf(record_id, "none")


def _own(html: str) -> DomainOf | None:
    """The domain according to the page's markup."""
    said: dict[str, str] = {}
    linked: list[str] = []
    loaded: list[str] = []
    for tag, attributes in _tags(html):
        address = attributes.get("href") or attributes.get("src", "")
        if tag == "link" and attributes.get("rel", "").lower() == "canonical":
            said.setdefault("canonical", address)
        elif tag == "meta" and attributes.get("property", "").lower() == "og:url":
            said.setdefault("og:url", attributes.get("content", ""))
        elif tag == "base":
            said.setdefault("base", address)
        elif _ABSOLUTE.match(address):
            (linked if tag == "a" else loaded).append(address)
    kinds = sorted(said, key=KINDS.index)
    absolute = [said[kind] if _ABSOLUTE.match(said[kind]) else "" for kind in kinds]
    for kind, domain in zip(kinds, _domains(absolute), strict=True):
        if domain:
            return DomainOf(domain, kind)
    links, sources = (Counter(one for one in _domains(some) if one) for some in (linked, loaded))
    own = (links + sources).keys() - EVERYWHERE
    # Twice: a third-party badge is one image with one link.
    best = min(own, key=lambda one: (-links[one] * (2 if sources[one] else 1), -sources[one], one), default=None)
    return None if best is None else DomainOf(best, "links")


def _tags(html: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Tags of the kinds that have URLs, with their attributes; the first of duplicate attributes counts."""
    for found in _TAG.finditer(html):
        attributes: dict[str, str] = {}
        for one in _ATTRIBUTE.finditer(found[2]):
            attributes.setdefault(one[1].lower(), one[2].strip("\"' \t\r\n"))
        yield found[1].lower(), attributes


def _domains(urls: Sequence[str]) -> list[str | None]:
    """The registered domain of each URL; None if it cannot be registered."""
    return [_registered(host) for host in hosts_of(pa.array(urls, pa.string())).to_pylist()]


def _registered(host: str | None) -> str | None:
    if host is None or host.startswith("[") or "." not in host:
        return None
    last = host.rpartition(".")[2]
    return None if last.isdigit() or last == "invalid" else registered_domain(host)


def folds(pages: Sequence[Owned], count: int) -> list[int]:
    """The fold (0 to `count` - 1) of each page: a domain is in one fold, and each set is spread over all folds.

    Domains with many pages are assigned first, since they are hard to fit later; then in the order of a hash.
    """
    held: dict[str, Counter[str]] = {}
    for page in pages:
        held.setdefault(page.domain, Counter())[page.set] += 1
    if not 2 <= count <= len(held):
        most = f"Use {'2' if len(held) == 2 else f'2 to {len(held)}'} folds, or give" if len(held) > 1 else "Give"
        raise UserError(
            f"{counted(len(pages), 'page is', 'pages are')} of {counted(len(held), 'domain')} and cannot be split "
            f"into {counted(count, 'non-empty fold')}. Nothing was done. {most} pages of more domains."
        )
    of_sets: list[Counter[str]] = [Counter() for _ in range(count)]
    chosen: dict[str, int] = {}
    for domain in sorted(held, key=lambda name: (-held[name].total(), _hash(name))):
        sets = held[domain]
        most = min(sets, key=lambda name: (-sets[name], name))
        fold = min(range(count), key=lambda one: (of_sets[one][most], of_sets[one].total(), one))
        of_sets[fold] += sets
        chosen[domain] = fold
    return [chosen[page.domain] for page in pages]


def kinds_of(kinds: Iterable[str]) -> dict[str, int]:
    """Pages by the source of their domain, in the order of KINDS."""
    counts = Counter(kinds)
    return {kind: counts[kind] for kind in KINDS if counts[kind]}


def _hash(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=16).digest()
