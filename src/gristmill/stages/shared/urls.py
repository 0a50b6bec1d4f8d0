"""URLs: their parts as browsers read them, and one normal form for all spellings of an address.

The library `ada-url` parses a URL by the WHATWG standard: letter case, tabs, `\\` for a slash, user names, IDN hosts
(`xn--`), default ports, dot segments. `parse` adds what the standard leaves open and lists need: a scheme is optional,
http and https are equal, a host has no dot at its end, and %XX has one spelling. The host is empty if there is none, as
for `urn:uuid:1`, or if the standard refuses the URL.

The normal form is a key to compare, not an address to fetch: `//example.com/page?a=1&b=2`. Everything takes time
proportional to the length of the URL.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple
from urllib.parse import quote, unquote_to_bytes

import ada_url
import pyarrow as pa
from pydantic import AfterValidator

from gristmill.kernels.text.unicode_data import nfc
from gristmill.stages.config_types import StageConfig

LIBRARIES = ("ada-url", "unicode")

_CONTROLS = "".join(map(chr, range(33)))
BREAKS = dict.fromkeys(map(ord, "\t\r\n"))
"""Characters that are ignored anywhere in a URL."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?![0-9])")
"""`localhost:8000` has no scheme."""
_WEB = ("http", "https")
_WEB_PORTS = ("80", "443")
_MOST_HOST = 253
"""The most characters of a host (RFC 1035)."""
_KEPT_CHARS = 2000
"""The parts of longer URLs are not kept in memory."""

_ODD = re.compile(r"[^!#-;=?-Z\[\]_a-z~]|%")
_ALLOWED = "!#$%&'()*+,/:;=?@[]"
_CODE = re.compile("%[0-9A-Fa-f]{2}")
_PLAIN_CODES = {
    f"%{ord(sign):02X}": sign for sign in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
}
_HIGH = re.compile("[A-Za-z<=>]?(?:%[89A-F][0-9A-F]){2,3000}")
"""Characters outside ASCII, with the letter that an accent may join. NFC takes quadratic time, so runs are bounded."""

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


class Url(NamedTuple):
    scheme: str
    """Empty for http and https."""
    host: str
    """In lower case, in its IDN form; empty if there is none."""
    port: str
    """Empty for 80, 443 and the default of a scheme."""
    path: str
    query: str
    fragment: str

    @property
    def site(self) -> str:
        """The host with its port."""
        return f"{self.host}:{self.port}" if self.port else self.host


NO_URL = Url("", "", "", "", "", "")


def parse(url: str | None) -> Url:
    """The parts of a URL. Those of recent URLs are kept, since several steps need them."""
    return NO_URL if url is None else _parse(url) if len(url) > _KEPT_CHARS else _parse_once(url)


def _parse(url: str) -> Url:
    url = url.lstrip(_CONTROLS)
    if not _SCHEME.match(url):
        url = url.translate(BREAKS)
        url = url if _SCHEME.match(url) else "http://" + url.lstrip("/\\")
    try:
        href = ada_url.normalize_url(url)
    except ValueError:
        return NO_URL
    scheme, _, rest = spelled(href).partition("://")
    rest, _, fragment = rest.partition("#")
    rest, _, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    host, port = authority.rpartition("@")[2], ""
    if ":" in host and host[-1] != "]":
        host, _, port = host.rpartition(":")
    host = host.rstrip(".").lower()
    if not host or len(host) > _MOST_HOST or ":" in scheme:
        return NO_URL
    if scheme in _WEB:
        scheme, port = "", "" if port in _WEB_PORTS else port
    return Url(scheme, host, port, slash + path, query, fragment)


_parse_once = lru_cache(maxsize=1 << 14)(_parse)


def spelled(text: str) -> str:
    """A part of a URL with one spelling of every character: letters, digits and `-._~` are not encoded, characters that
    no URL has are, in capitals and in Unicode NFC: `e%cc%81` is `%C3%A9`.
    """
    if not _ODD.search(text):
        return text
    coded = _CODE.sub(lambda code: _PLAIN_CODES.get(code[0].upper(), code[0].upper()), quote(text, safe=_ALLOWED))
    return _HIGH.sub(_composed, coded)


def _composed(run: re.Match[str]) -> str:
    text = unquote_to_bytes(run[0]).decode("utf-8", "surrogateescape")
    return quote(nfc(text), safe="", errors="surrogateescape")


def is_address(host: str) -> bool:
    """Whether a host is an IP address."""
    return host.startswith("[") or host.rpartition(".")[2].isdigit()


def domains_of(host: str) -> list[str]:
    """The domains that a host belongs to, the shortest first; an IP address only belongs to itself."""
    if is_address(host):
        return [host]
    labels = host.split(".")
    return [".".join(labels[start:]) for start in range(len(labels) - 1, -1, -1)]


def hosts_of(urls: pa.Array) -> pa.Array:
    """The hosts of URLs in lower case; null for URLs without a host."""
    return pa.array([parse(url).host or None for url in urls.to_pylist()], pa.string())


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
    """The normal forms of URLs, equal for all spellings of one address; empty for null."""
    return pa.array([normal_form(url or "", config) for url in urls.to_pylist()], pa.string())


def normal_form(url: str, config: UrlForm) -> str:
    """The normal form of one URL; a URL without a host is only stripped."""
    scheme, host, port, path, query, fragment = parse(url)
    if not host:
        return url.strip(_CONTROLS)
    if config.strip_www and host.startswith("www.") and "." in host[4:]:
        host = host[4:]
    if ";" in path:
        segments = (segment.partition(";") for segment in path.split("/"))
        path = "/".join(
            ";".join([name, *_untracked(parameters.split(";"), config)]) if sign else name
            for name, sign, parameters in segments
        )
    form = f"{scheme and scheme + ':'}//{host}{port and ':' + port}{path.rstrip('/')}"
    if query:
        parameters = _untracked(filter(None, _AMPERSAND.split(query)), config)
        if config.sort_query:
            parameters.sort(key=_name_of)
        form += "?" + "&".join(parameters) if parameters else ""
    if fragment and (config.fragments == "keep" or (config.fragments == "hashbang" and fragment.startswith("!"))):
        form += f"#{fragment}"
    return form


_AMPERSAND = re.compile("&(?:amp;)*", re.IGNORECASE)


def _name_of(parameter: str) -> str:
    return parameter.partition("=")[0]


def _untracked(parameters: Iterable[str], config: UrlForm) -> list[str]:
    names, prefixes = _tracking(config.tracking)
    return [
        parameter
        for parameter in parameters
        if not ((name := _name_of(parameter).lower()) in names or name.startswith(prefixes))
    ]


@lru_cache(maxsize=16)
def _tracking(patterns: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The whole names, and the beginnings of names."""
    lowered = [pattern.lower() for pattern in patterns]
    return frozenset(lowered), tuple(pattern[:-1] for pattern in lowered if pattern.endswith("*"))
