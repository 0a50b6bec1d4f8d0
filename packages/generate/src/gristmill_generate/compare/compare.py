"""Compares a text with its parent: counts what is new in it, and says where.

All that the parent says is in sets and counts (`ParentText`), so time is linear in the length of both texts.

- A number is new if the parent has no equal one; or if it has fewer, and none next to the same content words.
- A name is a word with a capital that the parent lacks in any case, unless it is the initials of the parent's names.
- A quotation is new if one of its 3-grams of words is (if it is shorter: one of its words), apart from its facts. Code
  is new if a fifth of its 3-grams of tokens is. 3-grams across lines and sentences do not count: both may be moved.
- A pair of neighbouring content words is flipped if the parent has it only with the other polarity. A negation changes
  the polarity of the next two pairs, and one of two opposites (`more`, `less`) that of both pairs that it is in.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise
from typing import Any, NamedTuple

from gristmill_generate.compare.facts import Fact, facts_of
from gristmill_generate.compare.lexicon import ENGLISH, GERMAN, LANGUAGES
from gristmill_generate.compare.quoted import QuotedPiece, begins_again, code_in, code_key, quotations_in
from gristmill_generate.compare.tokens import Date, Key, TextToken, number_key, tokens_of

CHECKS = (
    *("new_numbers", "new_dates", "new_units", "new_names", "new_urls", "new_quotations", "new_code"),
    *("flipped_negations", "flipped_comparisons"),
)
COLUMNS = (
    *(*CHECKS, "language_changed", "looped_words", "words", "parent_words", "ngrams", "copied_ngrams"),
    *("content_words", "new_content_words", "parent_content_words", "covered_content_words"),
)
MOST_SPANS = 1000
"""Spans of a text; counts go on."""
CONTEXT_TOKENS, CONTEXT_WORDS = 12, 3
"""How far the context of a number reaches on each side, and its content words."""
VOTING_WORDS, LEAST_VOTES = 500, 5
"""The first words of a text tell its language."""
LOOP_WORDS = 8
"""Words of a passage whose repetition is a loop."""
MOST_INITIALS = 8
_NEGATED_PAIRS = 2


class Span(NamedTuple):
    """Something new, in bytes of the text."""

    check: str
    start: int
    stop: int


class Pair(NamedTuple):
    """Two neighbouring content words."""

    stems: tuple[Hashable, Hashable]
    is_negated: bool
    first: TextToken
    last: TextToken
    has_opposite: bool


class ParentText:
    """All that a text says, for texts that were made from it."""

    def __init__(self, text: str) -> None:
        self.tokens = tokens_of(text)
        self.word_keys = [token.key for token in self.tokens if token.kind in ("word", "number")]
        self.words = {token.key for token in self.tokens if token.kind == "word"}
        self.content = {token.key for token in self.tokens if token.is_content}
        self.grams = set(_grams(self.word_keys))
        self.numbers: Counter[Any] = Counter()
        self.contexts: set[tuple[Any, Key]] = set()
        """Numbers with each of the content words around them."""
        self.quantities: set[tuple[Any, int]] = set()
        """Numbers with their units."""
        self.others: set[tuple[str, Any]] = set()
        """Times, addresses, and names with digits, by kind."""
        self.dates: set[Date] = set()
        """As they are written."""
        self.parts_of_dates: set[Date] = set()
        for fact in facts_of(self.tokens):
            self._add(fact)

    def _add(self, fact: Fact) -> None:
        if fact.kind == "time":
            self.numbers[number_key(str(self.tokens[fact.first].value))] += 1
        words = _context(self.tokens, fact) if fact.kind == "number" else []
        for reading in fact.readings:
            if isinstance(reading, Date):
                self._add_date(reading)
            elif fact.kind == "number":
                self.numbers[reading] += 1
                self.contexts.update((reading, word) for word in words)
                self.quantities.add((reading, fact.unit))
            else:
                self.others.add((fact.kind, reading))

    def _add_date(self, date: Date) -> None:
        self.dates.add(date._replace(is_short=False))
        for part in filter(None, (date.year, date.day)):
            self.numbers[number_key(str(part))] += 1
        self.parts_of_dates |= {date._replace(day=0), date._replace(year=0), Date(month=date.month)}

    def has_date(self, date: Date) -> bool:
        if date.weekday:
            return date.is_short or date in self.dates
        if date in (self.dates if date.year and date.day else self.parts_of_dates):
            return True
        return bool(date.year and self.numbers[number_key(str(date.year))]) and date._replace(year=0) in self.dates

    @cached_property
    def units(self) -> set[int]:
        """Units in brackets, such as those of the head of a table."""
        return {
            after.traits.unit
            for token, after in zip(self.tokens, self.tokens[1:], strict=False)
            if token.is_symbol("([")
        }

    @cached_property
    def pairs(self) -> set[tuple[Hashable, bool]]:
        return {(pair.stems, pair.is_negated) for pair in _pairs(self.tokens)}

    @cached_property
    def code(self) -> set[Hashable]:
        """The 3-grams of all tokens."""
        return set(_grams([code_key(token) for token in self.tokens]))

    @cached_property
    def passages(self) -> Counter[Hashable]:
        return Counter(_passages(self.word_keys))

    @cached_property
    def initials(self) -> set[str]:
        """The first letters of neighbouring words with capitals, over words without content."""
        found, letters = set(), ""
        for token in self.tokens:
            if token.kind != "word":
                letters = ""
            elif token.is_capital:
                letters = (letters + str(token.key)[0])[: MOST_INITIALS + 1]
                if 2 <= len(letters) <= MOST_INITIALS:
                    found.add(letters)
            elif not token.traits.is_stop or token.begins_sentence:
                letters = ""
        return found


def compare(text: str, parent: ParentText) -> tuple[dict[str, int], list[Span]]:
    """The counts of COLUMNS, and what is new."""
    tokens = tokens_of(text)
    votes, parent_votes = _votes(tokens), _votes(parent.tokens)
    language, parent_language = _language(votes), _language(parent_votes)
    spans = [*_new_facts(tokens, parent), *_new_names(text, tokens, parent, language), *_flipped(tokens, parent)]
    spans += _new_pieces(tokens, parent)
    keys = [token.key for token in tokens if token.kind in ("word", "number")]
    content = {token.key for token in tokens if token.is_content}
    grams = _grams(keys)[2:]
    loops = {passage: times for passage, times in Counter(_passages(keys)).items() if times > 1}
    has_changed = language is not None and parent_language is not None and language != parent_language
    counts: dict[str, int] = dict.fromkeys(CHECKS, 0) | Counter(span.check for span in spans)
    counts |= {
        "language_changed": has_changed and 2 * votes[parent_language or 0] < votes[language or 0],
        "looped_words": sum(max(0, times - max(1, parent.passages[passage])) for passage, times in loops.items()),
        "words": len(keys),
        "parent_words": len(parent.word_keys),
        "ngrams": len(grams),
        "copied_ngrams": sum(gram in parent.grams for gram in grams),
        "content_words": len(content),
        "new_content_words": len(content - parent.words),
        "parent_content_words": len(parent.content),
        "covered_content_words": sum(key in parent.words for key in content),
    }
    return counts, spans[:MOST_SPANS]


def _grams(keys: Sequence[Hashable]) -> list[Hashable]:
    """The 3-grams that end at each key."""
    return list(zip([None, None, *keys], [None, *keys], keys, strict=False))


def _passages(keys: Sequence[Hashable]) -> Iterator[Hashable]:
    return (tuple(keys[index : index + LOOP_WORDS]) for index in range(len(keys) - LOOP_WORDS + 1))


def _votes(tokens: Sequence[TextToken]) -> list[int]:
    """For each language, how many of the first words are frequent in it."""
    votes = [0] * len(LANGUAGES)
    for token in islice((token for token in tokens if token.kind == "word"), VOTING_WORDS):
        for language in token.traits.languages:
            votes[language] += 1
    return votes


def _language(votes: Sequence[int]) -> int | None:
    most = max(votes)
    return votes.index(most) if most >= LEAST_VOTES else None


def _context(tokens: Sequence[TextToken], fact: Fact) -> list[Key]:
    """The nearest content words on both sides of a fact."""
    before = reversed(tokens[max(0, fact.first - CONTEXT_TOKENS) : fact.first])
    after = tokens[fact.stop : fact.stop + CONTEXT_TOKENS]
    sides = ([token.key for token in side if token.is_content] for side in (before, after))
    return [key for side in sides for key in side[:CONTEXT_WORDS]]


def _new_facts(tokens: Sequence[TextToken], parent: ParentText) -> Iterator[Span]:
    facts = facts_of(tokens)
    times = Counter(fact.readings[0] for fact in facts if fact.kind == "number")
    for fact in facts:
        if fact.kind == "number":
            check = _new_number(tokens, fact, parent, times)
        elif fact.kind == "date":
            is_known = any(isinstance(date, Date) and parent.has_date(date) for date in fact.readings)
            check = "new_dates" if fact.is_checked and not is_known else None
        elif (fact.kind, fact.readings[0]) not in parent.others:
            check = "new_urls" if fact.kind == "address" else "new_numbers"
        else:
            check = None
        if check is not None:
            yield Span(check, tokens[fact.first].start, tokens[fact.stop - 1].stop)


def _new_number(tokens: Sequence[TextToken], fact: Fact, parent: ParentText, times: Counter[Any]) -> str | None:
    """What is new about a number."""
    reading = next((reading for reading in fact.readings if parent.numbers[reading]), fact.readings[0])
    if not parent.numbers[reading]:
        return "new_numbers" if fact.is_checked else None
    if fact.unit and (reading, fact.unit) not in parent.quantities:
        is_in_head = (reading, 0) in parent.quantities and fact.unit in parent.units
        if not is_in_head:
            return "new_units"
    if fact.is_checked and times[reading] > parent.numbers[reading]:
        words = _context(tokens, fact)
        near = sum((reading, word) in parent.contexts for word in words)
        return "new_numbers" if not near or 2 * near < len(words) else None
    return None


def _new_names(text: str, tokens: Sequence[TextToken], parent: ParentText, language: int | None) -> Iterator[Span]:
    data, in_title = text.encode(), _in_titles(tokens)

    def may_be_name(index: int) -> bool:
        token = tokens[index] if 0 <= index < len(tokens) else None
        return token is not None and token.kind == "word" and token.is_capital and not token.traits.is_stop

    for index, token in enumerate(tokens):
        if not may_be_name(index) or token.size < 2 or token.has_digit or token.key in parent.words:
            continue
        traits = token.traits
        if traits.is_negation or traits.month or traits.weekday or traits.number or traits.unit:
            continue
        if in_title[index] or token.begins_sentence:
            if language != ENGLISH or traits.is_common:  # other languages have capitals there
                continue
        elif language == GERMAN:  # nouns have capitals: a name is of two words
            is_after = may_be_name(index - 1) and not tokens[index - 1].begins_sentence
            if not is_after and not may_be_name(index + 1):
                continue
        written = data[token.start : token.stop]
        is_initials = 2 <= len(written) <= MOST_INITIALS and written.isalpha() and written.isupper()
        if not is_initials or written.decode().lower() not in parent.initials:
            yield Span("new_names", token.start, token.stop)


def _in_titles(tokens: Sequence[TextToken]) -> list[bool]:
    """For each token, whether all long words of its line have capitals."""
    found: list[bool] = []
    starts = [index for index, token in enumerate(tokens) if token.begins_line]
    for start, stop in pairwise([*starts, len(tokens)]):
        capitals = [token.is_capital for token in tokens[start:stop] if token.kind == "word" and token.size > 3]
        is_title = len(capitals) >= 2 and all(capitals) and not tokens[stop - 1].ends_sentence
        found += [is_title] * (stop - start)
    return found


def _pairs(tokens: Sequence[TextToken]) -> Iterator[Pair]:
    """The pairs of neighbouring content words, and whether what they say is negated."""
    previous: tuple[Hashable, int, TextToken] | None = None
    negated = 0
    for token in tokens:
        traits = token.traits
        if token.begins_paragraph or token.ends_sentence or token.is_symbol(":;"):
            previous, negated = None, 0
        if token.kind != "word":
            continue
        if traits.is_negation and not traits.opposite:
            negated = _NEGATED_PAIRS
        elif traits.opposite or token.is_content:
            stem = traits.opposite or token.stem
            side = traits.side if traits.opposite else 0
            if previous is not None:
                is_negated = (negated > 0) ^ bool(side) ^ bool(previous[1])
                has_opposite = bool(traits.opposite or previous[2].traits.opposite)
                yield Pair((previous[0], stem), is_negated, previous[2], token, has_opposite)
            negated = max(negated - 1, 0)
            previous = stem, side, token


def _flipped(tokens: Sequence[TextToken], parent: ParentText) -> Iterator[Span]:
    for pair in _pairs(tokens):
        is_flipped = (pair.stems, not pair.is_negated) in parent.pairs
        if is_flipped and (pair.stems, pair.is_negated) not in parent.pairs:
            check = "flipped_comparisons" if pair.has_opposite else "flipped_negations"
            yield Span(check, pair.first.start, pair.last.stop)


def _new_pieces(tokens: Sequence[TextToken], parent: ParentText) -> Iterator[Span]:
    """Quotations, code and formulas that the parent lacks."""
    for piece in quotations_in(tokens):
        if not all(_quoted(tokens, piece, parent)):
            yield Span("new_quotations", tokens[piece.first].start, tokens[piece.stop - 1].stop)
    for piece in code_in(tokens):
        known = list(_coded(tokens, piece, parent))
        if 5 * sum(known) < 4 * len(known):
            yield Span("new_code", tokens[piece.first].start, tokens[piece.stop - 1].stop)


def _quoted(tokens: Sequence[TextToken], piece: QuotedPiece, parent: ParentText) -> Iterator[bool]:
    """Whether the parent has each 3-gram of words. Quantities and dates are left out: they are checked as facts."""
    run: list[Key] = []
    in_fact = False
    for index in range(piece.inside, piece.end):
        token, traits = tokens[index], tokens[index].traits
        if index > piece.inside and begins_again(tokens, index):
            run = []
        if token.kind not in ("word", "number"):
            continue
        may_be_fact = bool(traits.number or traits.unit or traits.month or traits.weekday)
        is_before_number = index + 1 < piece.end and tokens[index + 1].kind == "number"
        in_fact = token.kind == "number" or (may_be_fact and (in_fact or is_before_number))
        if in_fact:
            run = []
            continue
        run = [*run[-2:], token.key]
        yield tuple(run) in parent.grams if len(run) == 3 else token.key in parent.words


def _coded(tokens: Sequence[TextToken], piece: QuotedPiece, parent: ParentText) -> Iterator[bool]:
    """Whether the parent has each 3-gram of tokens, and each word before the first one."""
    first = tokens[piece.inside]
    has_name = piece.inside == piece.first + 3 and first.kind == "word" and not first.is_spaced  # of a language
    run: list[Hashable] = []
    for index in range(piece.inside + has_name, piece.end):
        if index > piece.inside + has_name and begins_again(tokens, index):
            run = []
        run = [*run[-2:], code_key(tokens[index])]
        if len(run) == 3:
            yield tuple(run) in parent.code
        elif tokens[index].kind == "word":
            yield tokens[index].key in parent.words
