"""Keeps documents by language and by the probability of that language.

    - keep_language: {keep: {en: 0.65, de: 0.6}}             these two; FineWeb used 0.65 for English
    - keep_language: {keep: [en, de], min_probability: 0.5}  the same threshold for both
    - keep_language: {min_probability: 0.5}                  any language that the classifier is sure of

The step reads the columns of the step `language`. A document without a label (no words) is dropped as
`unsure_language`. The run warns if no document is in one of the languages to keep.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator, model_validator

from gristmill.stages.contract import LanguageName, Map, OtherSetting, StageConfig
from gristmill.stages.shared.counting import languages_of, verdicts_by
from gristmill.stages.shared.rule import places
from gristmill.warned import Warnings

SCHEMA = pa.schema([pa.field("drop", pa.string()), pa.field("detail", pa.string())])

OTHER = "other_language"
UNSURE = "unsure_language"

Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Config(StageConfig):
    """Languages are codes of the step `language`: en, de, zh."""

    keep: dict[LanguageName, Probability | None] = Field(default={})
    """Languages to keep, each with its least probability, 0 to 1, or null for `min_probability`; a list of languages
    means null for each. Empty: every language."""
    min_probability: Probability | None = None
    """The least probability of languages without their own, 0 to 1; null: any."""
    other: Literal["drop", "keep"] = "drop"
    """What to do with languages that are not in `keep`; with `keep`, `min_probability` applies to them."""

    @field_validator("keep", mode="before")
    @classmethod
    def _listed(cls, keep: object) -> Any:
        return dict.fromkeys(keep) if isinstance(keep, list | tuple) else keep

    @field_validator("keep")
    @classmethod
    def _folded(cls, keep: dict[str, float | None]) -> dict[str, float | None]:
        folded = {name.lower(): least for name, least in keep.items()}
        if len(folded) < len(keep):
            raise ValueError("a language is listed twice; upper and lower case are the same. Remove one")
        return folded

    @model_validator(mode="after")
    def _decides(self) -> "Config":
        if not self.min_probability and (not self.keep or (self.other == "keep" and not any(self.keep.values()))):
            raise ValueError("this keeps every document. List languages under keep, or set min_probability")
        return self


def exceptions(config: Config, path: str) -> dict[str, OtherSetting]:
    """The languages with their own probability instead of `min_probability`."""
    named = config.keep.items() if path == "min_probability" else ()
    return {name: OtherSetting(f"keep.{name}") for name, least in named if least is not None}


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    labels = batch.column("language.label")
    probability = batch.column("language.probability").fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    place = places(labels, list(config.keep), fold=True)
    default = config.min_probability or 0.0
    least = np.array([default if one is None else one for one in config.keep.values()] + [default])
    drops_others = bool(config.keep) and config.other == "drop"
    missing = labels.is_null().to_numpy(zero_copy_only=False)
    other = (place == len(config.keep)) & drops_others & ~missing
    unsure = missing | (~other & (probability < least[place]))
    drop = pc.if_else(pa.array(other), OTHER, pc.if_else(pa.array(unsure), UNSURE, pa.scalar(None, pa.string())))
    rounded = pc.round(pa.array(probability), 4).cast(pa.string())
    shown = pc.coalesce(pc.binary_join_element_wise(labels.cast(pa.string()), rounded, " "), pa.scalar("no words"))
    detail = pc.if_else(pa.array(other | unsure), shown, pa.scalar(None, pa.string()))
    return pa.RecordBatch.from_arrays([drop, detail], schema=SCHEMA)


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """Count, for each language, what was kept and what each reason dropped, in documents and bytes of text."""
    return {"languages": verdicts_by(languages_of(batch), answers["drop"], batch["text_bytes"])}


def warnings(found: Mapping[str, Any], config: Config) -> Sequence[str]:
    """Warn about languages without documents, and about a filter that dropped nothing (law 7)."""
    languages = {name.lower(): verdicts for name, verdicts in found.get("languages", {}).items()}
    if not languages:
        return ()
    warned = Warnings()
    absent = [name for name in config.keep if name not in languages]
    if absent:
        warned.add("absent_name", f"no document is in {', '.join(absent)}")
    if all(set(verdicts) == {"kept"} for verdicts in languages.values()):
        warned.add("no_effect", "no document was dropped")
    return warned


STAGE = Map(
    version=1,
    config=Config,
    reads=("language.label", "language.probability", "text_bytes"),
    only_kept=True,
    schema=SCHEMA,
    apply=apply,
    metrics=metrics,
    exceptions=exceptions,
    warnings=warnings,
)
