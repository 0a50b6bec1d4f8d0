"""E-mail addresses, and logins with a password in URLs.

An address is a name of up to 64 bytes, `@` (also ` @ ` and `%40`), and a domain whose last label is a top-level domain
of the public suffix list. Both may have letters of any script (RFC 6531). So `foo@1.2.3`, `module@latest` and
`git@github.com:owner/repository` are kept, and so are the domains reserved for examples (RFC 2606, RFC 6761).
"""

import re
import unicodedata
from collections.abc import Collection, Iterator
from functools import lru_cache

from gristmill.data_files import read_table
from gristmill.kernels.text.unicode_classes import PIECE_RANGES, UNIT_RANGES
from gristmill.kernels.text.unicode_data import known
from gristmill.stages.scrub.finding import PiiSpan
from gristmill.stages.shared.public_suffix import has_suffix

EXAMPLES = ("example.com", "example.org", "example.net", "example.edu", "localhost")
RESERVED = ("example", "invalid", "test", "localhost", "local", "internal", "lan", "arpa", "onion")
_SERVICES = frozenset({"git", "hg", "svn", "ssh", "bzr"})

_SIGN = re.compile(rb"(.*?)( @ |@|%40)[^@%]*", re.DOTALL)
_USER_ENDS = re.compile(rb"(?::[^\s/@]{0,200})?@")
"""Follows an address that is the user of a URL."""
_LABELS = rb"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+"
_ASCII = re.compile(_LABELS + rb"(?:xn--[A-Za-z0-9-]{2,59}|[A-Za-z]{2,24})(?![A-Za-z0-9_])")
_MARKS = "".join(
    run[0] + "-" + run[-1]
    for run in "".join(
        char if unicodedata.category(known(char))[0] == "M" else " " for char in map(chr, range(0x300, 0x1E00))
    ).split()
)
"""Accents and vowel signs, which are parts of words but not `\\w`: without them no name in Hindi is whole."""
_WIDE = re.compile(
    rf"(?:[^\W_][\w{_MARKS}-]{{0,62}}(?<![-_])\.)+"
    rf"(?:xn--[a-z0-9-]{{2,59}}|[^\W\d_](?:[^\W\d_]|[{_MARKS}]){{1,23}})(?![\w{_MARKS}])",
    re.IGNORECASE,
)
_FOREIGN = re.compile(rf"[^\w.%+'{_MARKS}-]|%(?!40|2[BDEbde]|5[Ff])[2-7][0-9A-Fa-f]")
"""Characters that are allowed in a name but never occur in one: they belong to the text before it."""
_UNSPACED = re.compile("[" + "".join(f"{chr(low)}-{chr(high)}" for low, high in UNIT_RANGES + PIECE_RANGES) + "]")
"""Han, kana, Thai and similar scripts: no space separates a sentence from the address after it."""
_DOT = rb"(?: ?(?:\[ ?dot ?\]|\( ?dot ?\)|\{ ?dot ?\}) ?| dot |-dot-|\.)"
_SPELT_AT = re.compile(rb"[ \[({-]at[ \])}-]", re.IGNORECASE)
_SPELT = re.compile(
    rb"(?<![\w.+@-])([a-z0-9](?:[\w+]|[.-](?!dot-|at-)){0,63}+(?:" + _DOT + rb"\w{1,30}+){0,3}+)"
    rb"( ?(?:\[ ?at ?\]|\( ?at ?\)|\{ ?at ?\}) ?| at |-at-)"
    rb"((?:[a-z0-9](?:[a-z0-9]|-(?!dot-)){0,62}+" + _DOT + rb"){1,5})([a-z]{2,24}+)(?![\w@-]|\.\w)",
    re.IGNORECASE,
)
"""An address whose signs are words."""
SPELT_STEP, _MOST_SPELT = 60, 120
"""Bytes that are searched together, and around them."""
_LARGE = frozenset({"com", "net", "org", "edu", "gov", "mil", "info", "biz"})
_RARE = re.compile(rf".*\.(?!(?:{'|'.join(sorted(_LARGE))})$)[a-z]{{3,}}")
_WORD = re.compile(r".*\.(?:a[mst]|be|by|do|in|is|it|me|my|no|so|to|us)")
"""`look at the dot in it`: without brackets, these are not countries."""
_ORDINARY = frozenset(read_table(__file__, "words.toml")["ordinary"].split())


def _is_sentence(name: str, domain: str) -> bool:
    """Whether words around ` at ` or ` @ ` read like a sentence: `he worked at mill dot com`, `concert @ mill.org`."""
    return name in _ORDINARY or _RARE.fullmatch(domain) is not None


def find_email(text: bytes, start: int, stop: int, kept: Collection[str]) -> Iterator[PiiSpan]:
    """The address between `start`, the earliest begin of the name, and `stop`, the latest end of the domain."""
    sign = _SIGN.fullmatch(text, start, stop)
    name = _name(sign[1]) if sign else ""
    if not sign or not name or name.endswith(".") or ".." in name:
        return
    found = _domain(text, sign.end(2), stop)
    if found is None:
        return
    domain, end = found
    if _is_kept(domain, kept):
        return
    if name.lower() in _SERVICES and text[end : end + 1] in (b":", b"/"):
        return
    begin, value = sign.end(1) - len(name.encode()), unicodedata.normalize("NFC", f"{name.lower()}@{domain}")
    if sign[2] == b" @ " and (len(name) == 1 or text[end : end + 1] == b"/" or _is_sentence(name.lower(), domain)):
        return  # a product of matrices; `more @ mill.org/news`
    is_user = sign[2] == b"@" and text[max(0, begin - 3) : begin] == b"://" and not _USER_ENDS.match(text, end)
    if text[end : end + 1] == b"(" or is_user:
        return  # a call; the user of a URL
    yield PiiSpan(begin, end, "email", value)


def _name(before: bytes) -> str:
    """The name at the end of `before`, which may begin within a character."""
    written = _FOREIGN.split(known(before.decode("utf-8", "ignore")))[-1]
    if written and not _UNSPACED.match(written[-1]):
        written = _UNSPACED.split(written)[-1]
    first, quote, last = written.rpartition("'")
    name = (first.rpartition("'")[2] + quote if first else "") + last  # o'hara
    return name.lstrip(".-+%_'")


def _domain(text: bytes, start: int, stop: int) -> tuple[str, int] | None:
    """The domain that begins at `start`, in lower case, and where it ends."""
    wide = text[start:stop]
    if not wide.isascii():
        decoded = known(wide.decode("utf-8", "ignore"))
        found = _WIDE.match(decoded)
        if found and has_suffix(found[0].lower()):
            return found[0].lower(), start + len(found[0].encode())
    narrow = _ASCII.match(text, start, stop if stop < len(text) else len(text))
    if narrow is None:
        return None
    domain = narrow[0].decode().lower()
    rest = domain.rpartition(".")[0]
    last = rest.rpartition(".")[2]
    if not has_suffix(domain) and "." in rest and (last in _LARGE or len(last) == 2):
        domain = rest  # jane@mill.org.txt, jane@mill.de.Write
    return (domain, start + len(domain)) if len(domain) <= 253 and has_suffix(domain) else None


@lru_cache(maxsize=1 << 12)
def _is_below(domain: str, kept: str) -> bool:
    return domain == kept or domain.endswith("." + kept)


def _is_kept(domain: str, kept: Collection[str]) -> bool:
    return any(_is_below(domain, one) for one in (*kept, *RESERVED))


def find_spelt(text: bytes, start: int, kept: Collection[str]) -> Iterator[PiiSpan]:
    """`name [at] domain [dot] com`, `NAME AT DOMAIN DOT COM`, with a word for a sign in SPELT_STEP bytes from `start`.

    Without brackets, at least one dot must be a word, the last label a large domain or a country, and the name not an
    ordinary English word, unless AT is in capitals and the name is not.
    """
    low = max(0, start - _MOST_SPELT)
    if not _SPELT_AT.search(text, low, start + SPELT_STEP):
        return
    for found in _SPELT.finditer(text, low, start + SPELT_STEP + _MOST_SPELT):
        name, domain, last = (
            re.sub(_DOT, b".", part, flags=re.IGNORECASE).decode().lower() for part in found.group(1, 3, 4)
        )
        value, host = f"{name}@{domain}{last}", domain + last
        bare = not re.search(rb"[\[({]", found[2])
        is_rare = _RARE.fullmatch(host) or _WORD.fullmatch(host)
        marked = found[2] == b" AT " and not found[1].isupper()
        if bare and (b"dot" not in found[3].lower() or is_rare or not (marked or name not in _ORDINARY)):
            continue
        if has_suffix(host) and not _is_kept(host, kept):
            yield PiiSpan(found.start(), found.end(), "email", value)


_DOCUMENTED = ("example.com", "example.org", "example.net", "example.edu", "example", "invalid", "test")
"""Hosts of examples. A password of a host in a local network, or of this machine, still counts."""
_HOST = re.compile(rb"[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]")
_NO_PASSWORDS = re.compile(
    rb"(?i)(?=.*(?:pass|pwd|pw|secret|token|user|change|replace|example|placeholder|redacted|dummy|xx|\*|\.|here))"
    rb"(?:(?:your|my|the|some|any|this|our|db|database|mysql|postgres(?:ql)?|mongo(?:db)?|redis|root|admin|app|new|old|"
    rb"default|strong|super|very|long|here|change|replace|insert|enter|put|me|it|with|actual|real|example|sample|test|"
    rb"dummy|fake|placeholder|redacted|passphrase|passw[o0]rd|passwd|pass|pwd|pw|secret|token|key|username|user|name|"
    rb"x++|\*++|\.++)[-_. ]?)++\d{0,3}"
)
"""Placeholders for a password: only words of placeholders, and nothing else."""
_FILLED = re.compile(rb"\$|[<{[(%].*[>}\])%$]|.*(?:[$#]\{|\{\{)|%(?:\(\w*\))?s|[\"'`+]", re.DOTALL)
"""Values that a program fills in."""


def find_password(text: bytes, start: int, stop: int) -> Iterator[PiiSpan]:
    """The password of `scheme://user:password@`. Names of variables, placeholders and examples are kept."""
    host = _HOST.match(text, stop + 1)
    if host is None or any(_is_below(host[0].decode().lower(), one) for one in _DOCUMENTED):
        return
    user, colon, password = text[start:stop].partition(b":")
    if not colon or len(password) < 3 or password == user or b"@" in password or b"EXAMPLE" in password:
        return
    if not _FILLED.match(password) and not _NO_PASSWORDS.fullmatch(password):
        yield PiiSpan(stop - len(password), stop, "secret", password.decode(errors="replace"))
