"""The rules of a set, and which threshold applies to which document.

Every rule compares one value with one threshold, so a set is a table. A threshold is a number, or null for a rule that
is off; a flag (true: the rule is on) means the threshold 0. Thresholds may have exceptions by language, by file
extension (code) and by source. If several set the same threshold of a document, the source takes precedence over the
extension and the extension over the language: a source is the most specific.

The published thresholds are for English. A set has its own thresholds for documents that the step `language` labels
otherwise (LANGUAGES in its file); they apply if the recipe leaves the threshold at its published value. (Whether the
value was written out does not matter: only values count in a task's key and in `gristmill whatif`.)
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator, Field, SerializerFunctionWrapHandler, WrapSerializer

from gristmill.stages.contract import AsCount, CodeLanguageName, LanguageName, SourceName, StageConfig
from gristmill.stages.natural_languages import ENGLISH, language_of
from gristmill.stages.shared.expressions import Formula, parse_value

Count = Annotated[int, AsCount, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Ratio = Annotated[float, Field(ge=0, allow_inf_nan=False)]

EXCEPTIONS = {"by_language": "language", "by_extension": "code_signals.extension", "by_source": "source"}
"""Fields with exceptions and their columns, in the order in which later ones win; the language column may differ."""


class Rule(NamedTuple):
    """A document fails if `value` `fails` the threshold in the field with that name."""

    reason: str
    value: str
    """A formula over columns."""
    fails: Literal["<", ">"]
    threshold: str


@lru_cache(maxsize=256)
def formula(value: str) -> Formula:
    return parse_value(value)


def only_set(model: StageConfig, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
    """Dumps an exception as the user wrote it: a missing field is not a default but the value of the whole set."""
    return {name: value for name, value in handler(model).items() if name in model.model_fields_set}


def _folded(exceptions: dict[str, Any]) -> dict[str, Any]:
    folded: dict[str, Any] = {}
    for name, exception in exceptions.items():
        if name.lower() in folded:
            raise ValueError(f"{name} appears twice; case does not matter in names of languages. Remove one")
        folded[name.lower()] = exception
    return folded


def _stated(exceptions: dict[str, Any]) -> dict[str, Any]:
    for name, exception in exceptions.items():
        if not exception.model_fields_set:
            raise ValueError(f"{name} sets no threshold, so it has no effect. Set one, or remove {name}")
    return exceptions


_Thresholds = TypeVar("_Thresholds")
_Stated = Annotated[_Thresholds, WrapSerializer(only_set)]
BySource = Annotated[dict[SourceName, _Stated[_Thresholds]], AfterValidator(_stated)]
"""Exceptions by a name that is compared exactly."""
ByName = Annotated[dict[str, _Stated[_Thresholds]], AfterValidator(_stated)]
"""Exceptions by any name, such as a domain."""
ByExtension = Annotated[dict[str, _Stated[_Thresholds]], AfterValidator(_stated), AfterValidator(_folded)]
"""Exceptions by the extension of a file: kept and compared in lower case, like languages."""
ByLanguage = Annotated[dict[LanguageName, _Stated[_Thresholds]], AfterValidator(_stated), AfterValidator(_folded)]
"""Exceptions by natural language."""
ByCodeLanguage = Annotated[
    dict[CodeLanguageName, _Stated[_Thresholds]], AfterValidator(_stated), AfterValidator(_folded)
]
"""Exceptions by programming language."""


def as_number(threshold: Any) -> float:
    """The threshold as a float. NaN for a rule that is off: no value is below or above it."""
    if isinstance(threshold, bool):
        return 0.0 if threshold else np.nan
    return np.nan if threshold is None else float(threshold)


def exceptions_of(config: StageConfig, field: str) -> Mapping[str, StageConfig]:
    found: Mapping[str, StageConfig] = getattr(config, field, {})
    return found


def is_on(config: StageConfig, threshold: str) -> bool:
    """Whether a rule can fail any document."""
    values = [getattr(config, threshold)]
    for field in EXCEPTIONS:
        exceptions = exceptions_of(config, field).values()
        values += [getattr(one, threshold) for one in exceptions if threshold in one.model_fields_set]
    return any(not np.isnan(as_number(value)) for value in values)


def places(column: pa.Array, names: Sequence[str], fold: bool) -> npt.NDArray[np.int64]:
    """For each row the index of its value among `names`; len(names) if it is not one of them, or null."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    known = encoded.dictionary.cast(pa.string())
    found = pc.index_in(pc.utf8_lower(known) if fold else known, value_set=pa.array(names, pa.string()))
    other = len(names)
    # The last entry is for null, whose index becomes -1.
    place_of = np.append(found.fill_null(other).to_numpy(zero_copy_only=False), other).astype(np.int64)
    place: npt.NDArray[np.int64] = place_of[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    return place


Languages = Mapping[str, Mapping[str, Any]]
"""Thresholds of a set for languages other than English, by code; those under OTHER_LANGUAGES are for all of them."""
OTHER_LANGUAGES = "*"


class PublishedRules(NamedTuple):
    """A published set of rules."""

    rules: Callable[[Any], tuple[Rule, ...]]
    """Returns the rules for a config of the set."""
    language: str
    """The column of `by_language`."""
    languages: Languages
    """Thresholds for languages other than English."""


def stated_in(exception: StageConfig) -> dict[str, Any]:
    """The thresholds that an exception sets."""
    return {name: getattr(exception, name) for name in exception.model_fields_set}


def for_label(config: StageConfig, languages: Languages, label: str) -> dict[str, Any]:
    """The exceptions for documents with a label: the set's for its language, then those of the recipe."""
    language = language_of(label)
    found: dict[str, Any] = {}
    if languages and language != ENGLISH:
        found = {**languages.get(OTHER_LANGUAGES, {}), **languages.get(language or "", {})}
        fields = type(config).model_fields
        found = {name: value for name, value in found.items() if getattr(config, name) == fields[name].default}
    own = exceptions_of(config, "by_language").get(label.lower())
    return found if own is None else {**found, **stated_in(own)}


class Exceptions(NamedTuple):
    """Thresholds of some rows of a batch that replace the set's."""

    own: Sequence[Mapping[str, Any]]
    place: npt.NDArray[np.int64]
    """For each row the index of its exception in `own`; len(own) if it has none."""


def thresholds(
    config: StageConfig, threshold: str, exceptions: Sequence[Exceptions]
) -> float | npt.NDArray[np.float64]:
    """The threshold of each row, or one for all; later exceptions win."""
    value: Any = as_number(getattr(config, threshold))
    for own, place in exceptions:
        stated = np.array([threshold in one for one in own] + [False])
        if stated.any():
            numbers = np.array([as_number(one.get(threshold)) for one in own] + [np.nan])
            value = np.where(stated[place], numbers[place], value)
    answer: float | npt.NDArray[np.float64] = value
    return answer
