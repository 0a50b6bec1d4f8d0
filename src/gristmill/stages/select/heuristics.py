"""Drops documents by rules over measured columns: published sets (`rules/`) and a recipe's own expressions.

    - heuristics: {rules: [gopher_repetition, gopher_quality, c4, fineweb]}
    - heuristics: {gopher_quality: {min_words: 30, by_language: {zh: {min_words: 20}}}, own: ["signals.words > 9 -> x"]}

A set is used if `rules` lists it or if the recipe has thresholds for it; the order is that of `rules`, then that of the
other sets in the recipe. A document is dropped for the first rule that it fails, and `failed` lists all of them. The
step reads no text, so a change of thresholds takes seconds. docs/rules.md lists every rule and its source;
docs/languages.md has the thresholds for languages other than English, which need a step `language`.
"""

import importlib
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from types import ModuleType
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import AfterValidator, ModelWrapValidatorHandler, create_model, field_validator, model_validator

from gristmill import installed
from gristmill.stages import STEPS
from gristmill.stages.contract import LayerStage, Map, OtherSetting, StageConfig
from gristmill.stages.declarations import stage_of
from gristmill.stages.natural_languages import ENGLISH, LABEL, language_of
from gristmill.stages.select.rules import c4, code, documentation, fineweb, gopher_quality, gopher_repetition
from gristmill.stages.select.rules.c4 import Config as C4Config
from gristmill.stages.select.rules.code import Config as CodeConfig
from gristmill.stages.select.rules.documentation import Config as DocumentationConfig
from gristmill.stages.select.rules.fineweb import Config as FineWebConfig
from gristmill.stages.select.rules.gopher_quality import Config as GopherQualityConfig
from gristmill.stages.select.rules.gopher_repetition import Config as GopherRepetitionConfig
from gristmill.stages.shared.counting import counts_of
from gristmill.stages.shared.expressions import parse_rule
from gristmill.stages.shared.rule import EXCEPTIONS, PublishedRules, exceptions_of, stated_in
from gristmill.stages.shared.tally import LANGUAGES, Tally
from gristmill.stages.shared.vectors import ColumnVectors
from gristmill.stages.shared.verdicts import Group, RuleSet, all_of, describe, failing, first_of, reasons_of, rule_set
from gristmill.warned import Warnings

SCHEMA = pa.schema(
    [
        pa.field("drop", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("failed", pa.list_(pa.string())),
    ]
)

SETS = {
    "gopher_repetition": gopher_repetition.SET,
    "gopher_quality": gopher_quality.SET,
    "c4": c4.SET,
    "fineweb": fineweb.SET,
    "documentation": documentation.SET,
    "code": code.SET,
}
OWN = "own"
_ABSENT: tuple[Any, ...] = (None, (), [])

CountedBy = Literal["source", "snapshot", "language", "language_hint"]
"""The columns by which the counts of rules can be broken down."""


def set_of(name: str) -> PublishedRules | None:
    """The set with this name: one of ours, or that of a step of an installed package."""
    if name in SETS:
        return SETS[name]
    module = _of_package(name)
    return None if module is None else vars(module)["SET"]


def _of_package(name: str) -> ModuleType | None:
    """The rules of a step of an installed package."""
    point = None if name == OWN or name in STEPS else installed.installed(installed.STEPS).get(name)
    stage = None if point is None else stage_of(point.module)
    path = stage.rule_set if isinstance(stage, LayerStage) else None
    return None if path is None else importlib.import_module(path)


def _known(name: str) -> str:
    if name == OWN or set_of(name) is not None:
        return name
    near = get_close_matches(name, [*SETS, OWN], 1)
    hint = f"Did you mean {near[0]}? Sets: " if near else "Sets: "
    unknown = f"{name!r} is not a set of rules. {hint}{', '.join((*SETS, OWN))}, and those of installed packages"
    raise ValueError(installed.missing(installed.STEPS, name) or unknown)


@cache
def _with_fields(**sets: ModuleType) -> type["Config"]:
    """The config with a field for each of these sets."""
    fields: dict[str, Any] = {name: (vars(module)["Config"] | None, None) for name, module in sets.items()}
    return create_model("Config", __base__=Config, __module__=__name__, **fields)


class Config(StageConfig):
    """The rules, their order and their thresholds."""

    rules: tuple[Annotated[str, AfterValidator(_known)], ...] = ()
    """Sets in the order in which they are tried: gopher_repetition, gopher_quality, c4, fineweb, documentation, code,
    those of installed packages, and `own`, the recipe's own rules. Sets that are not listed but have thresholds below
    follow in the order of the recipe."""
    gopher_repetition: GopherRepetitionConfig | None = None
    """Thresholds of Gopher's repetition rules."""
    gopher_quality: GopherQualityConfig | None = None
    """Thresholds of Gopher's quality rules."""
    c4: C4Config | None = None
    """Thresholds of C4's rules for documents."""
    fineweb: FineWebConfig | None = None
    """Thresholds of the rules that FineWeb added."""
    documentation: DocumentationConfig | None = None
    """Thresholds of Gopher's rules for manuals and reference pages, instead of the two sets of Gopher."""
    code: CodeConfig | None = None
    """Thresholds of the rules for source code."""
    own: tuple[str, ...] = ()
    """The recipe's own rules: a condition over columns, `->`, the reason."""
    count_by: tuple[CountedBy, ...] = ("source", "snapshot")
    """The columns by which the counts of rules are broken down; `language` needs the step of that name."""

    @model_validator(mode="wrap")
    @classmethod
    def _with_sets(cls, values: object, validate: ModelWrapValidatorHandler["Config"]) -> "Config":
        """The config with a field for each set of an installed package that it uses."""
        if not isinstance(values, Mapping):
            return validate(values)
        listed = values.get("rules", ())
        named = (*(listed if isinstance(listed, list | tuple) else ()), *values)
        used = {name for name in named if isinstance(name, str)} - cls.model_fields.keys()
        more = {name: module for name in sorted(used) if (module := _of_package(name)) is not None}
        return _with_fields(**more).model_validate(values) if more else validate(values)

    def __reduce__(self) -> Any:
        """A worker makes the class with these fields for itself."""
        return Config.model_validate, (self.model_dump(),)

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, values: object) -> Any:
        """Make the order and the thresholds of every set in use explicit, so that the task key has both."""
        if not isinstance(values, Mapping):
            return values
        listed = values.get("rules", ())
        if not isinstance(listed, list | tuple) or not all(isinstance(name, str) for name in listed):
            return values
        sets = [name for name in cls.model_fields if set_of(name) is not None]
        if repeated := [name for name, times in Counter(listed).items() if times > 1]:
            raise ValueError(f"rules lists {repeated[0]} twice. Remove one")
        for name in sets:
            if name in values and values[name] is None and (name in listed or "rules" not in values):
                raise ValueError(f"{name} is empty. Write {name}: {{}} for the published thresholds, or remove it")
        if OWN in listed and not values.get(OWN):
            raise ValueError("rules lists own, but there are no own rules. Write some under own, or remove it")
        written = [
            name for name in values if name in (*sets, OWN) and name not in listed and values[name] not in _ABSENT
        ]
        rules = (*listed, *written)
        if not rules and values.keys() - cls.model_fields.keys():
            return values  # validation will report the unknown field
        if not rules:
            raise ValueError(f"there is no rule. List some under rules: {', '.join(SETS)}")
        defaults: dict[str, Any] = {name: {} for name in rules if name in sets and values.get(name) is None}
        return {**values, **defaults, "rules": rules}

    @field_validator("own")
    @classmethod
    def _parse(cls, own: tuple[str, ...]) -> tuple[str, ...]:
        for text in own:
            parse_rule(text)
        return own

    @model_validator(mode="after")
    def _unique(self) -> "Config":
        for other in ("gopher_quality", "gopher_repetition"):
            if {"documentation", other} <= set(self.rules):
                raise ValueError(f"documentation replaces {other}. Remove {other}")
        reasons = reasons_of(groups(self))
        if not reasons:
            raise ValueError("every rule is off. Give one a threshold, or remove the step")
        if repeated := [reason for reason, times in Counter(reasons).items() if times > 1]:
            raise ValueError(f"two rules have the reason {repeated[0]}. Give your own rule another reason")
        return self


def groups(config: Config) -> list[Group]:
    """The rules that are on, in the order in which they are tried."""
    found: list[Group] = []
    for name in config.rules:
        published = set_of(name)
        if published is None:
            found.append([parse_rule(text) for text in config.own])
        else:
            own = getattr(config, name)
            found.append(rule_set(published.rules(own), own, published.language, published.languages))
    return found


def exceptions(config: Config, path: str) -> dict[str, OtherSetting]:
    """The languages, extensions and sources with their own threshold instead of the one at `path`."""
    name, _, threshold = path.partition(".")
    own: StageConfig | None = getattr(config, name) if set_of(name) is not None else None
    if own is None:
        return {}
    found = {}
    for field in EXCEPTIONS:
        published = exceptions_of(type(own)(), field)
        for label, one in exceptions_of(own, field).items():
            if threshold in one.model_fields_set:
                same = stated_in(published[label]).items() if label in published else ()
                is_built_in = (threshold, getattr(one, threshold)) in same
                found[label] = OtherSetting(f"{name}.{field}.{label}.{threshold}", is_built_in)
    return found


def reads(config: Config) -> tuple[str, ...]:
    """The columns that the rules that are on, their exceptions and the counts need."""
    named: list[str] = []
    for group in groups(config):
        named += group.columns if isinstance(group, RuleSet) else [c for rule in group for c in rule.condition.columns]
    named += [LANGUAGES.get(name, name) for name in config.count_by]
    return tuple(dict.fromkeys([*named, "text_bytes"]))


def may_read(config: Config) -> tuple[str, ...]:
    """The language, if a set in use has thresholds for other languages."""
    return (LABEL,) if any(isinstance(group, RuleSet) and group.languages for group in groups(config)) else ()


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """Apply the rules. A row whose columns are null fails no rule, since it has no text."""
    columns = ColumnVectors(batch)
    failings = [one for group in groups(config) for one in failing(group, columns)]
    first = first_of(failings, batch.num_rows)
    reasons = pa.array([one.reason for one in failings], pa.string())
    drop = reasons.take(pa.array(first, mask=first < 0))
    return pa.RecordBatch.from_arrays([drop, describe(failings, first), all_of(failings, first)], schema=SCHEMA)


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Count, for each rule, the documents and bytes that fail it, that fail it first, and that fail only it."""
    tally = Tally(reasons_of(groups(config)), answers["failed"], batch["text_bytes"])
    found: dict[str, Any] = {"judged": tally.judged(), "rules": tally.rules()}
    if may_read(config) and LABEL in batch.schema.names:
        counts = counts_of(batch[LABEL])
        found["not_english"] = sum(count for label, count in counts.items() if language_of(label) != ENGLISH)
    for name in config.count_by:
        found[f"by_{name}"] = tally.by(batch[LANGUAGES.get(name, name)])
    return found


def warnings(found: Mapping[str, Any], config: Config) -> Sequence[str]:
    """Warn about sets and own rules that match no document (law 7), and about thresholds that override those for other
    languages.

    A single rule of a published set may well match nothing; the funnel by rule shows the counts.
    """
    if not found.get("judged", {}).get("documents"):
        return ()
    idle = []
    for name, group in zip(config.rules, groups(config), strict=True):
        silent = [reason for reason in reasons_of([group]) if reason not in found["rules"]]
        if name == OWN:
            idle += [f"own rule {reason}" for reason in silent]
        elif len(silent) == len(reasons_of([group])):
            idle.append(f"rule set {name}")
    warned = Warnings()
    if idle:
        warned.add("no_effect", f"{', '.join(idle)} matched no document")
    if found.get("not_english") and (changed := for_all_languages(config)):
        set_name, _, threshold = changed[0].partition(".")
        warned.add(
            "other_languages",
            f"your value of {', '.join(changed)} also replaces the thresholds for languages other than English (in "
            f"this corpus, documents in these: {found['not_english']:,}). To change only English, write "
            f"{set_name}: {{by_language: {{en: {{{threshold}: {getattr(getattr(config, set_name), threshold)}}}}}}}",
        )
    return warned


def for_all_languages(config: Config) -> list[str]:
    """The thresholds (SET.NAME) that the recipe changes and that published sets also define for other languages."""
    return [
        f"{name}.{threshold}"
        for name in config.rules
        if (published := set_of(name)) is not None
        for threshold in dict.fromkeys(key for one in published.languages.values() for key in one)
        for own in (getattr(config, name),)
        if getattr(own, threshold) != type(own).model_fields[threshold].default
    ]


STAGE = Map(
    version=3,
    config=Config,
    reads=reads,
    may_read=may_read,
    only_kept=True,
    schema=SCHEMA,
    apply=apply,
    metrics=metrics,
    exceptions=exceptions,
    for_all_languages=for_all_languages,
    warnings=warnings,
)
