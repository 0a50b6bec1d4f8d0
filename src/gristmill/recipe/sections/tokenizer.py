"""The `tokenizer` of a recipe: checks it and turns it into steps after those of every source."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from pydantic import Field, model_validator

from gristmill.recipe.checks.check import check
from gristmill.recipe.checks.mistakes import Path, dotted, no_domain, show, suggest
from gristmill.recipe.config import load_config
from gristmill.recipe.draft import Draft
from gristmill.recipe.fields import EVERY_SOURCE
from gristmill.recipe.model import Source, Step
from gristmill.recipe.sections.steps import Lists
from gristmill.recipe.stage_module import check_config
from gristmill.stages.contract import StageConfig
from gristmill.stages.tokenizer import (
    tokenizer,
    tokenizer_file,
    tokenizer_names,
    tokenizer_pin,
    tokenizer_sample,
    tokenizer_text,
)

AT: Path = ("tokenizer",)
TOKENIZER, SAMPLE, TEXT, NAMES = "tokenizer", "tokenizer_sample", "tokenizer_text", "tokenizer_names"
"""Names of the steps."""


class TrainFields(tokenizer_sample.SampleOptions, tokenizer.Config):
    """The fields that a user writes under `train`: those of sampling and of training."""


class TokenizerFields(StageConfig):
    """The field `tokenizer`."""

    train: dict[str, Any] | None = None
    """the budgets of the sample, the size of the vocabulary, the pattern"""
    pin: str | None = None
    """the tokenizer.json that `train` made earlier: it is used, and nothing is trained"""
    file: str | None = None
    """an existing tokenizer.json"""
    names: dict[str, str] = Field(default_factory=dict)
    """names for reserved slots, given after training: nothing is trained or encoded again"""

    @model_validator(mode="after")
    def _one(self) -> "TokenizerFields":
        if (self.train is None) == (self.file is None):
            raise ValueError("a tokenizer is either trained (train) or read from a file (file). Write one of the two")
        if self.pin is not None and self.train is None:
            raise ValueError("pin keeps what train made, but there is no train. Write file instead of pin")
        return self


def load_tokenizer(draft: Draft, raw: object, sources: Mapping[str, Source], lists: Lists) -> tuple[Step, ...]:
    """The steps that make the tokenizer; empty if the recipe has none, or a mistake in it."""
    if not isinstance(raw, dict):
        return ()
    fields = check(draft, TokenizerFields, raw, AT)
    taken = [step for step in lists.get(EVERY_SOURCE, ()) if step and step.name in (TOKENIZER, SAMPLE, TEXT, NAMES)]
    for step in taken:
        message = f"{step.id} has the name of a step that the field tokenizer adds. Rename its module."
        draft.mistakes.add(step.line, message)
    if fields is None or taken:
        return ()
    line = draft.tree.line_of_key(AT)
    steps = _tokenizer(draft, fields, raw, sources, line)
    if not fields.names or not steps or not _names_fit(draft, steps[-1].config, fields.names):
        return steps
    return (*steps, Step.implied(TOKENIZER, NAMES, tokenizer_names, tokenizer_names.Config(names=fields.names), line))


def _tokenizer(
    draft: Draft, fields: TokenizerFields, raw: Mapping[str, Any], sources: Mapping[str, Source], line: int
) -> tuple[Step, ...]:
    """The steps that read or train the tokenizer."""
    if fields.file is not None:
        file = load_config(draft, tokenizer_file.Config, {"file": raw["file"]}, AT)
        return _checked(draft, tokenizer_file, file, line)
    train = load_config(draft, TrainFields, raw["train"], (*AT, "train"))
    if not isinstance(train, TrainFields) or not _domains_fit(draft, train, sources):
        return ()
    if fields.pin is not None:
        pinned = load_config(draft, tokenizer_pin.Config, {"pin": raw["pin"]}, AT)
        return _checked(draft, tokenizer_pin, pinned, line)
    config = tokenizer.Config(**_cut(train, tokenizer.Config))
    if not check_config(draft, tokenizer.__name__, TOKENIZER, config, (*AT, "train")):
        return ()
    domains = {name: source.domain for name, source in sources.items() if source.domain is not None}
    sample = tokenizer_sample.Config(**_cut(train, tokenizer_sample.SampleOptions), domains=domains)
    return (
        Step.implied(TOKENIZER, SAMPLE, tokenizer_sample, sample, line),
        Step.implied(TOKENIZER, TEXT, tokenizer_text, tokenizer_text.Config(domains=domains), line),
        Step.implied(TOKENIZER, TOKENIZER, tokenizer, config, line),
    )


def _names_fit(draft: Draft, config: StageConfig, names: Mapping[str, str]) -> bool:
    """Whether a tokenizer that the recipe trains has these reserved slots; adds a mistake if not."""
    fault = tokenizer_names.fault_of_trained(config, names) if isinstance(config, tokenizer.Config) else None
    if fault is not None:
        draft.add((*AT, "names"), f"{dotted((*AT, 'names'))}: {fault}.")
    return fault is None


def _checked(draft: Draft, stage: ModuleType, config: StageConfig | None, line: int) -> tuple[Step, ...]:
    """The step that reads a tokenizer; empty if it has a mistake."""
    if config is None or not check_config(draft, stage.__name__, TOKENIZER, config, AT):
        return ()
    return (Step.implied(TOKENIZER, TOKENIZER, stage, config, line),)


def _cut(fields: TrainFields, model: type[StageConfig]) -> dict[str, Any]:
    return {name: getattr(fields, name) for name in model.model_fields}


def _domains_fit(draft: Draft, train: TrainFields, sources: Mapping[str, Source]) -> bool:
    """Whether every source has a domain, and the domains match the budgets; adds mistakes if not."""
    if draft.lacks(sources):
        return False
    before = len(draft.mistakes)
    at: Path = (*AT, "train", "sample_bytes")
    known = dict.fromkeys(source.domain for source in sources.values() if source.domain is not None)
    for name, source in sources.items():
        if source.domain is None:
            where = dotted(("sources", name))
            fix = f"Add domain: to it, and a budget for it to {dotted(at)}."
            message = f"{where} has no domain, but the tokenizer samples by domain. {fix}"
            draft.add_at_key(("sources", name), message, no_domain(name))
    for domain in train.sample_bytes:
        if domain not in known:
            fix = suggest(domain, known, "Domains")
            draft.add_at_key((*at, domain), f"{dotted(at)}.{domain} is the domain of no source. {fix}")
    for domain in known:
        if domain not in train.sample_bytes:
            fix = f"Add {domain}: and a size; 0 leaves it out."
            draft.add(at, f"{dotted(at)} has no budget for the domain {show(domain)}. {fix}")
    if not any(train.sample_bytes.values()):
        draft.add(at, f"{dotted(at)} takes no text. Give a domain a size, such as 1GB.")
    return len(draft.mistakes) == before
