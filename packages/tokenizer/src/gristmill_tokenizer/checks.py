"""Checks that every tokenizer must pass; a failed check describes the fault."""

from collections.abc import Callable, Sequence

from gristmill.counted import counted
from gristmill.tokenizer.hostile import HOSTILE
from gristmill.tokenizer.special import check_names, ordinary
from gristmill_tokenizer.pattern import digits_are_split, pattern_is_applied_once, trained_with_its_pattern
from gristmill_tokenizer.result import Check, result
from gristmill_tokenizer.subject import Subject


def special_tokens_are_one_id(subject: Subject) -> Check:
    """If special tokens are allowed, the text of a special token becomes its id, alone and inside other text."""
    tokenizer, faults = subject.tokenizer, []
    for text, number in tokenizer.specials.items():
        alone, between = (tokenizer.encode_text(shape.format(text), "all") for shape in ("{}", "a{}b"))
        if alone != [number] or between.count(number) != 1:
            faults.append(f"{text} (id {number}) becomes {alone} alone and {between} between letters")
    return result(
        "special_tokens_are_one_id",
        faults,
        counted(len(tokenizer.specials), "special token"),
        bool(tokenizer.specials),
    )


def special_tokens_decode(subject: Subject) -> Check:
    """If special tokens are kept, the id of a special token decodes to its text."""
    tokenizer, faults = subject.tokenizer, []
    for text, number in tokenizer.specials.items():
        decoded = tokenizer.decode([number], keep_special=True)
        if decoded != text:
            faults.append(f"id {number} decodes to {decoded!r}, not {text!r}")
    together = "x".join(tokenizer.specials)
    if not faults and tokenizer.decode(tokenizer.encode_text(together, "all"), keep_special=True) != together:
        faults.append("special tokens between letters do not survive a round trip")
    said = f"{counted(len(tokenizer.specials), 'special token')}, decoded with them kept"
    return result("special_tokens_decode", faults, said, bool(tokenizer.specials))


def special_tokens_are_marks(subject: Subject) -> Check:
    """No special token can be taken for ordinary text: each has visible signs around letters, and no white space."""
    specials, faults = subject.tokenizer.specials, []
    try:
        check_names(tuple(specials))
    except ValueError as error:
        faults.append(str(error))
    faults += [f"{text} may occur in ordinary text" for text in ordinary(specials)]
    reserved = sum("reserved" in text for text in specials)
    counts = f"{counted(len(specials) - reserved, 'named special token')}, {counted(reserved, 'reserved slot')}"
    return result("special_tokens_are_marks", faults, counts, bool(specials))


def special_text_is_text(subject: Subject) -> Check:
    """If special tokens are not allowed, their text is encoded like any other text."""
    tokenizer, faults = subject.tokenizer, []
    special = {*tokenizer.specials.values()}
    for text in tokenizer.specials:
        ids = tokenizer.encode_text(f"a{text}b")
        if special & {*ids}:
            faults.append(f"{text} in a text becomes the id {min(special & {*ids})}")
    return result(
        "special_text_is_text",
        faults,
        f"{counted(len(special), 'special token')} in text: no special id",
        bool(special),
    )


def all_bytes_have_a_token(subject: Subject) -> Check:
    """Every byte has a token; `<0x0A>` counts if the model has byte fallback."""
    special = {*subject.tokenizer.specials.values()}
    single = {token for number, token in enumerate(subject.tokens) if number not in special}
    spelled = bool(((subject.spec or {}).get("model") or {}).get("byte_fallback"))
    missing = [
        byte for byte in range(256) if bytes([byte]) not in single and not (spelled and b"<0x%02X>" % byte in single)
    ]
    faults = [f"{256 - len(missing)}/256; without a token: {' '.join(f'0x{byte:02X}' for byte in missing[:16])}"]
    return result("all_bytes_have_a_token", faults if missing else [], "256/256")


def round_trip(subject: Subject) -> Check:
    """Every hostile text decodes to itself."""
    faults = []
    for name, text in HOSTILE.items():
        back = subject.tokenizer.decode(subject.tokenizer.encode_text(text), keep_special=True)
        if back != text:
            at = next((n for n, (one, other) in enumerate(zip(text, back, strict=False)) if one != other), None)
            at = min(len(text), len(back)) if at is None else at
            faults.append(f"{name}: {text[at : at + 12]!r} decodes to {back[at : at + 12]!r} (character {at})")
    return result("round_trip", faults, counted(len(HOSTILE), "hostile text"))


def tokens_differ(subject: Subject) -> Check:
    """No two ids have the same bytes."""
    first: dict[bytes, int] = {}
    faults = []
    for number in subject.ordinary:
        other = first.setdefault(subject.tokens[number], number)
        if other != number:
            faults.append(f"ids {other} and {number} are both {subject.tokens[number]!r}")
    return result("tokens_differ", faults, counted(len(subject.ordinary), "token"))


def ids_are_contiguous(subject: Subject) -> Check:
    """Every id below the size of the vocabulary has a token: an unused id is an embedding row that never learns."""
    holes = [number for number, token in enumerate(subject.tokens) if not token]
    faults = (
        [f"{counted(len(holes), 'id has', 'ids have')} no token: {', '.join(map(str, holes[:12]))}"] if holes else []
    )
    return result("ids_are_contiguous", faults, f"0 to {len(subject.tokens) - 1}")


def merges_are_in_the_vocabulary(subject: Subject) -> Check:
    """Both halves of every merge, and its result, are tokens."""
    known = {*subject.tokens}
    faults = [
        f"{one!r} + {other!r}: {lost!r} is not a token"
        for one, other in subject.merges
        for lost in (one, other, one + other)
        if lost not in known
    ]
    return result("merges_are_in_the_vocabulary", faults, counted(len(subject.merges), "merge"), bool(subject.merges))


CHECKS: tuple[Callable[[Subject], Check], ...] = (
    special_tokens_are_one_id,
    special_tokens_decode,
    special_tokens_are_marks,
    special_text_is_text,
    all_bytes_have_a_token,
    round_trip,
    digits_are_split,
    trained_with_its_pattern,
    tokens_differ,
    ids_are_contiguous,
    merges_are_in_the_vocabulary,
)
"""The checks that only need the tokenizer."""


def run_checks(subject: Subject, texts: Sequence[str] = ()) -> list[Check]:
    """Run all checks; `texts` are real texts for the pattern checks, in addition to the hostile ones."""
    return [*(check(subject) for check in CHECKS), pattern_is_applied_once(subject, texts)]
