"""The programming language of a file: by its name, its extension, its content if the extension is shared, its `#!`
line.

Languages have their GitHub names, so a recipe may say `C++` and `Jupyter Notebook`.
"""

import re

from gristmill.data_files import read_table
from gristmill.kernels.text.unicode_data import known

HEAD_CHARACTERS = 1 << 15
"""How much of a file the content rules read."""


def by_key(listed: dict[str, str]) -> dict[str, str]:
    """Turns `language: "key key"` into key -> language. A key with two languages is a mistake in the table."""
    found: dict[str, str] = {}
    for language, keys in listed.items():
        for key in keys.split():
            if key in found:
                raise ValueError(f"{key} means both {found[key]} and {language}")
            found[key] = language
    return found


_TABLES = read_table(__file__, "languages.toml")
BY_EXTENSION, BY_NAME, BY_INTERPRETER = map(by_key, (_TABLES["extension"], _TABLES["name"], _TABLES["interpreter"]))


_BY_CONTENT = {
    extension: tuple((language, re.compile(pattern, re.MULTILINE)) for language, pattern in rules)
    for extension, rules in _TABLES["content"].items()
}
_NEEDS_A_RULE = frozenset(("man", "b", "inc", "x"))

_MANUAL_PAGE = re.compile(r"\.[1-9](?:x|pm|ssl|posix)?$", re.IGNORECASE)
_MANUAL_MARKUP = re.compile(r"\A(?:\s*[.'])")
_SHEBANG = re.compile(r"\A#![ \t]*(\S+)(?:[ \t]+(?:-\S+[ \t]+)*(?:\w+=\S*[ \t]+)*(\S+))?")


def language(name: str, text: str) -> tuple[str, str] | None:
    """The language and how it was determined (`name`, `extension`, `content`, `shebang`), or None."""
    base = name.rsplit("/", 1)[-1]
    head = known(text[:HEAD_CHARACTERS])
    if found := BY_NAME.get(base) or BY_NAME.get(base.lower()):
        return found, "name"
    parts = base.lower().split(".")
    # `a.html.erb` has two extensions that belong together: the longest known one counts.
    for at in range(1, len(parts)):
        extension = ".".join(parts[at:])
        for decided, pattern in _BY_CONTENT.get(extension, ()):
            if pattern.search(head):
                return decided, "content"
        if extension in BY_EXTENSION and extension not in _NEEDS_A_RULE:
            return BY_EXTENSION[extension], "extension"
    if _MANUAL_PAGE.search(base) and _MANUAL_MARKUP.match(head):
        return "Roff", "content"
    return _by_shebang(head)


def _by_shebang(head: str) -> tuple[str, str] | None:
    line = _SHEBANG.match(head)
    if line is None:
        return None
    program = line[1].rsplit("/", 1)[-1]
    if program == "env" and line[2]:
        program = line[2].rsplit("/", 1)[-1]
    # python3.11 and perl5 are python and perl.
    found = BY_INTERPRETER.get(program) or BY_INTERPRETER.get(program.rstrip("0123456789.-"))
    return (found, "shebang") if found else None
