"""What commands and environments of LaTeX leave in the text (`commands.toml`)."""

from gristmill.data_files import read_table

_TABLES = read_table(__file__, "commands.toml")
_ENVIRONMENTS = {name: frozenset(words.split()) for name, words in _TABLES["environments"].items()}
_COMMANDS = {name: frozenset(words.split()) for name, words in _TABLES["commands"].items()}


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: value for value, names in table.items() for name in names.split()}


MATH, CUT, TABLES = (_ENVIRONMENTS[name] for name in ("math", "cut", "tables"))
ALGORITHMS = _ENVIRONMENTS["algorithms"]
ROWS = _by_name(_TABLES["rows"])
"""{environment: the one that has its rows inside $$}"""
STATEMENTS = _by_name(_TABLES["statements"])
"""{environment: what a reader sees before its text}"""
GROUPS = dict.fromkeys(TABLES | _ENVIRONMENTS["sized"], 1) | dict.fromkeys(_ENVIRONMENTS["wide"], 2)
"""{environment: how many groups after its name are not text}"""
HEADINGS, CITES, REFERENCES = (_COMMANDS[name] for name in ("headings", "cites", "references"))
PAGE_REFERENCES, IN_BRACKETS, NOTES = (_COMMANDS[name] for name in ("page_references", "in_brackets", "notes"))
TEXTUAL = _COMMANDS["textual"]
"""Citations in which the author is a word of the sentence."""
NOT_TEXT = {
    name: count
    for count, group in enumerate(("one_group", "two_groups", "three_groups"), 1)
    for name in _COMMANDS[group]
}
"""{command: how many groups after it are not text}"""
PSEUDOCODE = {name: (before, after) for name, (before, after) in _TABLES["pseudocode"].items()}
"""{command of an algorithm in small letters: words before and after its group}"""
SIGNS: dict[str, str] = _TABLES["signs"]
QUANTITIES: dict[str, str] = _TABLES["quantities"]
"""{command of siunitx: whether each group is a number, a unit or an angle}"""
UNITS: dict[str, str] = {**_TABLES["prefixes"], **_TABLES["units"]}
JOINED = frozenset(_TABLES["prefixes"].values())
"""Signs that the next one follows without a space."""
