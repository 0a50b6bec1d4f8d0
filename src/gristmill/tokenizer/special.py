"""The special tokens of our own tokenizers: names that the recipe chooses, and reserved slots, 256 in all by default.

They come after all others, as in Llama 3 and cl100k: the ids below are then the dense ranks that readers of rank files
expect, and a smaller vocabulary loses merges, not special tokens. A reserved slot can get a name after training without
a change to the size of the embedding or to any id.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from gristmill.counted import counted

SLOTS = 256
MOST_SLOTS = 1 << 14
MOST_CHARACTERS = 100

BEGIN_OF_TEXT, END_OF_TEXT, PAD = "<|begin_of_text|>", "<|end_of_text|>", "<|pad|>"


def _marked(names: str, prefix: str = "") -> tuple[str, ...]:
    return tuple(f"<|{prefix}{name}|>" for name in names.split())


GROUPS: Mapping[str, tuple[str, ...]] = {
    "document": (BEGIN_OF_TEXT, END_OF_TEXT, PAD, "<|end_of_section|>"),
    "chat": _marked("system user assistant tool begin_of_turn end_of_turn"),
    "tools": _marked("tool_call end_tool_call tool_result end_tool_result"),
    "reasoning": _marked("think end_think"),
    # fill in the middle (Bavarian et al. 2022), files of a repository
    "fim": _marked("fim_prefix fim_middle fim_suffix fim_pad repository file"),
    "languages": _marked("en de es fr ja ru zh other", "lang_"),
    "code_languages": _marked(
        "python javascript typescript java c cpp csharp go rust ruby php swift kotlin scala r julia haskell lua perl "
        "shell sql html css json yaml markdown latex other",
        "code_",
    ),
}
"""Ready names that a recipe can choose by the name of the group."""
DEFAULT = tuple(group for group in GROUPS if group != "code_languages")


def special_tokens(chosen: Iterable[str], reserved: int | None) -> tuple[str, ...]:
    """The names of groups, single names, and reserved slots; ValueError for a name that no special token can have."""
    named = tuple(name for one in chosen for name in GROUPS.get(one, (one,)))
    slots = max(SLOTS - len(named), 0) if reserved is None else reserved
    names = named + tuple(f"<|reserved_{number}|>" for number in range(slots))
    check_names(names)
    return names


def named_slots(specials: Iterable[str], names: Mapping[str, str]) -> tuple[str, ...]:
    """The special tokens with names for reserved slots; ValueError if one is not reserved, or cannot have the name."""
    known = tuple(specials)
    free = [text for text in known if "reserved" in text]
    for slot in names:
        if slot not in free:
            shown = f"{free[0]} to {free[-1]}" if free else "none"
            raise ValueError(f"{slot!r} is not a reserved slot of the tokenizer. Reserved: {shown}")
    named = tuple(names.get(text, text) for text in known)
    check_names(named)
    return named


def check_names(names: Sequence[str]) -> None:
    """Raise ValueError if a name is empty, has white space or control characters, is too long, or occurs twice."""
    if len(names) > MOST_SLOTS:
        raise ValueError(f"{counted(len(names), 'special token')} are more than {MOST_SLOTS:,}. Lower reserved")
    seen: set[str] = set()
    for name in names:
        if not name or len(name) > MOST_CHARACTERS or not name.isprintable() or re.search(r"\s", name):
            raise ValueError(
                f"{name[:40]!r} cannot be a special token. Give 1 to {MOST_CHARACTERS} visible characters without "
                "white space, such as <|mine|>"
            )
        if name in seen:
            raise ValueError(f"the special token {name} occurs twice, but each has its own id. Remove one")
        seen.add(name)


def ordinary(names: Iterable[str]) -> list[str]:
    """Names that ordinary text may contain: they do not begin and end with a sign, or have no letter between. Those
    with the ▁ that SentencePiece writes for a space do not count: text does not have it.
    """
    return [name for name in names if not re.fullmatch(r"[^\w\s].*\w.*[^\w\s]|.*\u2581.*", name)]


def ordinary_warning(names: Iterable[str]) -> list[str]:
    """A warning for such names, if there are any."""
    found = ordinary(names)
    return found and [
        f"the special token {', '.join(found[:5])} may occur in ordinary text, which `tokenizers` then encodes as that "
        f"special token. Write it like <|{found[0]}|>, or name a group: {', '.join(GROUPS)}"
    ]


SPECIAL_TOKENS = special_tokens(DEFAULT, None)
