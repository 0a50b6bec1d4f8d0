"""Fills in `${NAME}` in a value of a recipe.

`${NAME}` is the environment variable NAME; `${NAME:-default}` is `default` if NAME is unset or empty, as in a shell;
nothing is substituted in the default. `$$` is one dollar. Any other dollar is literal, so that a regular expression may
end in one.
"""

import re
from collections.abc import Mapping

_DOLLAR = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<inside>[^}]*)(?P<end>\}?))")
_INSIDE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)


def substitute(text: str, env: Mapping[str, str]) -> str:
    """`text` with its variables filled in; raises ValueError if one cannot be."""

    def value_of(found: re.Match[str]) -> str:
        if found["dollar"]:
            return "$"
        if not found["end"]:
            raise ValueError(f"{found[0]!r} has no closing brace. Write ${{NAME}}, or $${{ for a literal ${{.")
        inside = _INSIDE.fullmatch(found["inside"])
        if inside is None:
            raise ValueError(f"{found[0]} does not name a variable. Write ${{NAME}} or ${{NAME:-default}}.")
        name, default = inside["name"], inside["default"]
        if default is not None:
            return env.get(name) or default
        if name not in env:
            raise ValueError(f"the environment variable {name} is not set. Set it, or write ${{{name}:-default}}.")
        return env[name]

    return _DOLLAR.sub(value_of, text)
