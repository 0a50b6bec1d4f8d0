"""A tokenizer under audit: how it encodes text, and what its file declares.

A `tokenizer.json` may split text in several steps. The audit looks for expressions that match *every* character, as
those of GPT-2 and its successors do. The first one is the pattern of the tokenizer; a second one would split the
pre-tokens again. The usual cause is `Split(pattern)` before a `ByteLevel` that still applies its own expression.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from gristmill.errors import UserError
from gristmill.places import system_of
from gristmill.tokenizer import files
from gristmill.tokenizer.alphabet import to_bytes
from gristmill.tokenizer.hostile import HOSTILE
from gristmill.tokenizer.library import open_library
from gristmill.tokenizer.model import Allowed, Definition
from gristmill.tokenizer.patterns import PATTERNS, recognise

Array = np.ndarray[Any, Any]
Merge = tuple[bytes, bytes]

_NEVER = 1 << 31  # larger than any rank


class AuditedTokenizer(Protocol):
    """The interface that the audit needs; `Tokenizer` and `LibraryTokenizer` implement it."""

    @property
    def vocab_size(self) -> int: ...
    @property
    def pattern(self) -> str | None: ...
    @property
    def specials(self) -> dict[str, int]: ...
    @property
    def hash(self) -> str: ...
    def encode(self, texts: object, allow_special: Allowed = ()) -> tuple[Array, Array]: ...
    def encode_text(self, text: str, allow_special: Allowed = ()) -> list[int]: ...
    def decode(self, ids: Iterable[int], keep_special: bool = True) -> str: ...
    def token_bytes(self, token: int) -> bytes: ...


@dataclass(frozen=True, eq=False)
class Subject:
    """A tokenizer, its name in the report, and its `tokenizer.json` if it has one."""

    name: str
    tokenizer: AuditedTokenizer
    spec: Mapping[str, Any] | None = None

    @cached_property
    def tokens(self) -> list[bytes]:
        """The bytes of each id; empty for an id without a token."""
        found = []
        for number in range(self.tokenizer.vocab_size):
            try:
                found.append(self.tokenizer.token_bytes(number))
            except UserError:
                found.append(b"")
        return found

    @cached_property
    def ordinary(self) -> list[int]:
        """The ids of tokens that are not special."""
        special = {*self.tokenizer.specials.values()}
        return [number for number, token in enumerate(self.tokens) if token and number not in special]

    @cached_property
    def definition(self) -> Definition | None:
        """The definition of a tokenizer that our kernel supports, else None."""
        found = getattr(self.tokenizer, "definition", None)
        return found if isinstance(found, Definition) else None

    @cached_property
    def merges(self) -> list[Merge]:
        """Both halves of each merge, ordered by rank; empty for a tokenizer without merges."""
        if self.definition is not None:
            return _merges_of(self.definition)
        listed = ((self.spec or {}).get("model") or {}).get("merges") or []
        halves = (merge.split(" ") if isinstance(merge, str) else merge for merge in listed)
        return [(to_bytes(one), to_bytes(other)) for one, other in halves]

    @cached_property
    def whole_expressions(self) -> list[str]:
        """The expressions in the file that match every character, in the order of application."""
        return [found for part in _parts(self._pre_tokenizer) if (found := _whole_expression(part)) is not None]

    @cached_property
    def pattern(self) -> str | None:
        """The named pattern that should split the text alone; None if it cannot be determined."""
        if self.tokenizer.pattern is not None:
            return self.tokenizer.pattern
        parts = list(_parts(self._pre_tokenizer))
        if not self.whole_expressions or any(
            _whole_expression(part) is None and part.get("type") != "ByteLevel" for part in parts
        ):
            return None
        return recognise(self.whole_expressions[0])

    @property
    def _pre_tokenizer(self) -> Mapping[str, Any] | None:
        return (self.spec or {}).get("pre_tokenizer")

    def library_cuts(self, text: str) -> list[str] | None:
        """The pre-tokens of a text by the library and the file; None without a file."""
        if self._library is None or self._library.pre_tokenizer is None:
            return None
        return [text[begin:end] for _, (begin, end) in self._library.pre_tokenizer.pre_tokenize_str(text)]

    @cached_property
    def _library(self) -> Any:
        return None if self.spec is None else open_library(json.dumps(self.spec))


def open_subject(uri: str, pattern: str | None = None) -> Subject:
    """Open a tokenizer from its file or folder. `pattern` is for rank files, which do not include one."""
    filesystem, path = system_of(uri)
    if filesystem.isdir(path):
        path = f"{path.rstrip('/')}/tokenizer.json"
    is_json = filesystem.isfile(path) and filesystem.cat_file(path).lstrip()[:1] == b"{"
    tokenizer = files.load(uri, None if is_json else pattern, probe="once")
    return Subject(uri, tokenizer, json.loads(filesystem.cat_file(path)) if is_json else None)


def _parts(pre_tokenizer: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    if not pre_tokenizer:
        return
    if pre_tokenizer.get("type") == "Sequence":
        for part in pre_tokenizer["pretokenizers"]:
            yield from _parts(part)
    else:
        yield pre_tokenizer


def _whole_expression(part: Mapping[str, Any]) -> str | None:
    """The expression of a step if it matches every character of a text, and so is a complete pattern; else None."""
    if part.get("type") == "ByteLevel":
        return PATTERNS["gpt2"].text if part.get("use_regex", True) else None
    expression = (part.get("pattern") or {}).get("Regex") if part.get("type") == "Split" else None
    if expression is None or recognise(expression) is not None:
        return expression
    from tokenizers import Regex, pre_tokenizers

    left_over = pre_tokenizers.Split(Regex(expression), "removed").pre_tokenize_str(HOSTILE["mixtures"])
    return None if left_over else str(expression)


def _merges_of(this: Definition) -> list[Merge]:
    """One merge per token, by rank. A rank file allows every split of a token in two; BPE uses one of them."""
    cuts: dict[int, list[int]] = {}
    for row in np.argsort(this.ranks, kind="stable").tolist():
        cuts.setdefault(int(this.made[row]), []).append(row)
    ranks = {this.tokens[made]: int(this.ranks[rows[0]]) for made, rows in cuts.items()}
    found = []
    for made, rows in cuts.items():
        halves = (this.tokens[int(this.left[rows[0]])], this.tokens[int(this.right[rows[0]])])
        found.append(halves if len(rows) == 1 else _last_merge(this.tokens[made], ranks) or halves)
    return found


def _last_merge(token: bytes, ranks: Mapping[bytes, int]) -> Merge | None:
    """The two pieces before the last merge of a token; None if BPE never produces it."""
    pieces = [bytes([byte]) for byte in token]
    while len(pieces) > 2:
        joined = [ranks.get(one + other, _NEVER) for one, other in pairwise(pieces)]
        at = joined.index(min(joined))
        if joined[at] == _NEVER:
            return None
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
    return (pieces[0], pieces[1])
