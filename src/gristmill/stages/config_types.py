"""The types of config fields: sizes, counts, files, names, and marks that say what a field is for."""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field


class StageConfig(BaseModel):
    """A frozen config that rejects unknown fields. The string below a field documents it."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def matching(pattern: str, rule: str) -> AfterValidator:
    """Text of a form. The message explains the form by its rule, in words, not by the pattern."""

    def check(value: str) -> str:
        if re.fullmatch(pattern, value) is None:
            raise ValueError(f"{value[:100]!r} is not allowed. {rule}")
        return value

    return AfterValidator(check)


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*+([A-Za-z]*)")
SIZE_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
SIZE_UNITS |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
"""The accepted units of a size. Case matters, since `Mb` means megabits to some."""


def parse_bytes(value: object) -> Any:
    """`64MB`, `1.5 GiB` or a plain number, as a number of bytes."""
    if not isinstance(value, str):
        return value
    found = _SIZE.fullmatch(value.strip())
    unit = SIZE_UNITS.get(found[2] or "B") if found else None
    if found is None or unit is None:
        message = f"{value!r} is not a size; write a number of bytes, or a number with {', '.join(SIZE_UNITS)}"
        near = [name for name in SIZE_UNITS if found and name.lower().startswith(found[2].lower())]
        raise ValueError(f"{message}. Did you mean {found[1]}{near[0]}?" if found and near else message)
    number = float(found[1]) * unit
    return int(number) if number <= MOST_BYTES else MOST_BYTES + 1  # infinity is out of bounds, too


MOST_BYTES = 2**60
Bytes = Annotated[int, BeforeValidator(parse_bytes), Field(ge=0, le=MOST_BYTES)]
"""A size in a config: a number of bytes, or a number with a unit."""


MOST_COUNT = 10**18
_SCALES = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "G": 10**9, "T": 10**12}
_SCALE_OF_SIZE = {"KB": "k", "MB": "M", "GB": "B", "TB": "T", "KIB": "k", "MIB": "M", "GIB": "B", "TIB": "T"}
"""Units of a size that people write after a count, and the unit that they mean."""
_COUNT = re.compile(r"([0-9][0-9_]{0,99}(?:\.[0-9]{1,99})?(?:[eE]\+?[0-9]{1,3})?)\s*+([A-Za-z]?)")


def parse_count(value: object) -> Any:
    """`100B`, `1.5T`, `2e9` or a plain number, as an integer. Values other than text and float stay as they are."""
    if isinstance(value, bool) or not isinstance(value, str | float):
        return value
    text = repr(value) if isinstance(value, float) else value
    found = _COUNT.fullmatch(text.strip())
    scale = _SCALES.get(found[2].upper()) if found else None
    if found is None or scale is None:
        message = f"{value!r} is not a count; write a number, such as 2000000, 2e9, 100B or 1.5T (k, M, B, T)"
        size = _SIZE.fullmatch(text.strip())
        near = _SCALE_OF_SIZE.get(size[2].upper()) if size else None
        raise ValueError(f"{message}. Did you mean {size[1]}{near}?" if size and near else message)
    number = Fraction(found[1].replace("_", "")) * scale
    if number > MOST_COUNT:
        raise ValueError(f"{value!r} is too large: the largest count is {MOST_COUNT:.0e}")
    if number.denominator != 1:
        raise ValueError(f"{value!r} is {float(number):g}, but a count is a whole number")
    return int(number)


AsCount = BeforeValidator(parse_count)
"""For large numbers that have their own bounds."""
Count = Annotated[int, AsCount, Field(ge=1, le=MOST_COUNT)]
"""A number of tokens, documents and so on: plain, or with k, M, B or T."""


class FileMark:
    """Marks a config field as the path of a file or folder that the stage reads."""


File = Annotated[str, FileMark()]
"""A path in a config, relative to the recipe, or any location that fsspec can open."""


@dataclass(frozen=True, slots=True)
class NameMark:
    """Marks config text as the name of something that must exist; a recipe with an unknown name is rejected."""

    kind: Literal["language", "code language", "source", "license"]


LanguageName = Annotated[str, NameMark("language")]
"""A label of the `language` step's model; case does not matter."""
CodeLanguageName = Annotated[str, NameMark("code language")]
"""A programming language as the `code` reader names it; case does not matter."""
SourceName = Annotated[str, NameMark("source")]
"""A source of the recipe."""
LicenseName = Annotated[str, NameMark("license")]
"""An SPDX identifier, or `LicenseRef-` followed by any name."""


class ReportMark:
    """Marks a config field that only `warnings` and `explain` read. It is in no task key: changing it runs nothing."""


def fields_of_output(config: StageConfig) -> set[str]:
    """The fields of a config that the output may depend on."""
    kind = type(config)
    return {
        name for name, field in kind.model_fields.items() if not any(isinstance(m, ReportMark) for m in field.metadata)
    }
