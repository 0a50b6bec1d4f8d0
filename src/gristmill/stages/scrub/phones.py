"""Phone numbers, by the numbering plan of their country (the library `phonenumbers`, Google's libphonenumber).

A number with `+` or `00` names its country. Without it, the number is tried in the countries that the document
suggests, and counts if it is grouped as in that country or follows a word such as `Tel`. Bare digits are never a
number: half of all runs of ten digits are valid somewhere.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from gristmill.stages.scrub.finding import TABLES, PiiSpan, ScannedText, digits_of, is_near, same_length, words

LIBRARIES = ("phonenumberslite",)

_MOST_BYTES = 64
"""The most digits and separators; longer runs are tables."""
ABOUT = words(*TABLES["about_phones"])
_SENT = ABOUT | words("to", "from", "sender", "recipient", "caller", "msisdn", "twilio")
"""Names of settings that hold a number: `FROM=+14155550123`."""
_NOT_ABOUT = words(*TABLES["not_about_phones"])
_PLUS = re.compile(rb"(?<![\w+])\+ ?\(?[1-9][\d ().\-/]{6,40}\d")
_ZEROS = re.compile(rb"(?<![\w+.\-/])00[ -]?[1-9][\d ().\-/]{7,40}\d")
_NATIONAL = re.compile(rb"(?<![\w.,+\-/])\(?\d[\d ().\-/]{5,30}\d(?![\d]|[.,-]\d)")
_AMERICAN = re.compile(
    rb"(?<![\w.,+\-/])(?:1[-. ])?(?:\([2-9]\d\d\)[ -]?|[2-9]\d\d[-.])[2-9]\d\d[-. ]\d{4}(?![\d]|[.,-]\d)"
)
_DATES = re.compile(
    rb"(?:19|20)\d\d[-./ ](?:0?[1-9]|1[0-2])[-./ ](?:0?[1-9]|[12]\d|3[01])(?!\d)"
    rb"|(?:0?[1-9]|[12]\d|3[01])[-./ ](?:0?[1-9]|[12]\d|3[01])[-./ ](?:19|20)\d\d(?!\d)"
)
_ZIP = re.compile(rb"\d{5}-\d{4}")  # MA 02110-1301
_BRACKETED = re.compile(rb"\([2-9]\d\d\)[ -]{0,2}[2-9]\d\d[-. ]\d{4}(?!\d|[.,-]\d)")
_NEGATIVE = re.compile(rb" -\d")
_GROUPS = re.compile(rb"\d+")
_EXTRA_GROUPS = 3
_MIN_DIGITS, _MOST_DIGITS = 7, 13
_GLUED = (*(bytes([byte]) for byte in b"_#$=\\%&@-/.,"), *(bytes([byte]) for byte in b"0123456789"))
"""Characters before digits that belong to something else."""
_AMERICAS = frozenset({"US", "CA", "PR", "JM", "TT", "BS", "BB", "DO"})
_WITH_ZERO = frozenset(TABLES["with_zero"].split())
"""Countries that write a 0 before a number without country code."""

REGIONS_OF_LANGUAGE = {name: tuple(listed.split()) for name, listed in TABLES["regions_of_language"].items()}
_REGION_OF_DOMAIN = {"uk": "GB", "edu": "US", "gov": "US", "mil": "US"}
_NO_REGIONS = frozenset(
    {"com", "org", "net", "io", "ai", "co", "tv", "me", "info", "dev", "app", "gg", "ly", "cc", "fm"}
)
_HOST = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^/?#@]*@)?[^/?#:]*\.([a-z]{2,3})(?=[/?#:]|$)", re.IGNORECASE)


@lru_cache(maxsize=1 << 12)
def regions_of(language: str | None, url: str | None, configured: tuple[str, ...]) -> tuple[str, ...]:
    """The countries that a document suggests: the configured ones, that of its domain, those of its language."""
    found = list(configured)
    host = _HOST.match(url) if url else None
    if host and (domain := host[1].lower()) not in _NO_REGIONS:
        region = _REGION_OF_DOMAIN.get(domain, domain.upper() if len(domain) == 2 else None)
        found += [region] if region else []
    found += REGIONS_OF_LANGUAGE.get((language or "").lower(), ())
    return tuple(dict.fromkeys(found))


def known_regions() -> frozenset[str]:
    import phonenumbers

    return frozenset(phonenumbers.SUPPORTED_REGIONS)


def find_phone(text: ScannedText, start: int, stop: int) -> Iterator[PiiSpan]:
    if stop - start > _MOST_BYTES or digits_of(text.data[start:stop]).startswith("000"):
        return
    data = text.data
    run = same_length(data[start:stop])
    plus = run.startswith((b"+", b"(+"))
    if plus or run.startswith((b"00", b"(00")):
        found = (_PLUS if plus else _ZEROS).search(run)
        yield from _international(data, start, found, plus) if found else ()
        return
    bracketed = _BRACKETED.search(run)
    if bracketed and (valid := _valid(bracketed[0].decode(), "US")):  # also after a ZIP code
        yield PiiSpan(start + bracketed.start(), start + bracketed.end(), "phone", valid[0])
        return
    groups = _GROUPS.findall(run)
    if _NEGATIVE.search(run) or (_ZIP.fullmatch(run) and data[max(0, start - 3) : start - 1].isupper()):
        return
    digits = sum(map(len, groups))
    if not _MIN_DIGITS <= digits <= _MOST_DIGITS or _DATES.match(run):
        return
    marked = groups[0].startswith(b"0") or run.startswith(b"(") or len(groups) >= 3
    about = is_near(data, start, stop, ABOUT, 32)
    before = data[max(0, start - 1) : start]
    if not about and (len(groups) == 1 or not marked or before in _GLUED or before.isalpha()):
        return  # rgb(96 139 168)
    if is_near(data, start, stop, _NOT_ABOUT, 16):
        return
    regions = text.regions()
    pattern = _NATIONAL if regions else _AMERICAN
    for region in regions or ("US",):
        if not about and not _can_be(region, groups, digits):
            continue
        for found in pattern.finditer(run):
            if one := _national(data, start, found, region, about):
                yield one
                return


def _can_be(region: str, groups: list[bytes], digits: int) -> bool:
    """A cheap check whether a number could be one of a country."""
    if region in _AMERICAS:
        return (digits == 10 and len(groups[0]) == 3) or (digits == 11 and groups[0] == b"1")
    return region not in _WITH_ZERO or groups[0].startswith(b"0")


def _international(data: bytes, start: int, found: re.Match[bytes], plus: bool) -> Iterator[PiiSpan]:
    """The longest prefix, by groups, that is a valid number."""
    written = found[0] if plus else b"+" + found[0][2:]
    ends = [group.end() for group in _GROUPS.finditer(written)]
    for end in ends[: -1 - _EXTRA_GROUPS : -1]:
        number = _valid(written[:end].decode(), None)
        if number is not None:
            stop = start + found.start() + end - (0 if plus else -1)
            begin = start + found.start()
            if plus and written[1:end].isdigit() and data[max(0, begin - 4) : begin].rstrip().endswith(b"="):
                plus = is_near(data, begin, stop, _SENT, 32)  # C = +12345678901 is arithmetic
            if plus or is_near(data, begin, stop, ABOUT, 32) or len(_GROUPS.findall(written[:end])) > 1:
                yield PiiSpan(begin, stop, "phone", number[0])
            return


def _national(data: bytes, start: int, found: re.Match[bytes], region: str, about: bool) -> PiiSpan | None:
    groups = _GROUPS.findall(found[0])
    if len(groups) == 1 and not about:
        return None
    if max(map(len, groups)) < 3 and len(groups) < 4:
        return None
    number = _valid(found[0].decode(), region)
    if number is None:
        return None
    value, grouped = number
    if not about and not _is_grouped(groups, grouped, found[0]):
        return None
    return PiiSpan(start + found.start(), start + found.end(), "phone", value)


def _is_grouped(groups: list[bytes], usual: tuple[bytes, ...], written: bytes) -> bool:
    """Whether digits are grouped as in the country, and the number looks like one: with its 0, or its brackets."""
    if groups[0] == b"1" and usual[0] != b"1":  # 1-800-...
        groups = groups[1:]
    if b"".join(groups) != b"".join(usual):
        return False
    marked = groups[0].startswith(b"0") or b"(" in written or len(groups) >= 3
    if b"." in written and (b" " in written or len(groups) < 3):
        return False
    alike = b"." not in written and (usual[0].startswith(groups[0]) or groups[0].startswith(usual[0]))
    return marked and (tuple(groups) == usual or (alike and len(groups[0]) >= 2 and len(groups) <= len(usual) + 2))


@lru_cache(maxsize=1 << 12)
def _valid(written: str, region: str | None) -> tuple[str, tuple[bytes, ...]] | None:
    """The number in its international form, and its groups as its country writes them; None if it is not a number."""
    import phonenumbers

    try:
        number = phonenumbers.parse(written, region)
    except phonenumbers.NumberParseException:
        return None
    if not phonenumbers.is_valid_number(number):
        return None
    form = phonenumbers.PhoneNumberFormat
    usual = phonenumbers.format_number(number, form.NATIONAL)
    return phonenumbers.format_number(number, form.E164), tuple(re.findall(rb"\d+", usual.encode()))
