"""The options of a mixture: the fields under `mix` in a recipe."""

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from gristmill.shardformat.locations import manifest_at
from gristmill.stages.config_types import matching
from gristmill.stages.contract import AsCount, Count, File, StageConfig
from gristmill.stages.mix.numbers import Positive, Weight

MAX_EPOCHS = 4.0
"""Up to four epochs of a text are nearly as good as fresh text (Muennighoff et al. 2023)."""
DEFAULT = "default"
"""The key in a mapping of caps for every group without its own cap."""

Domains = dict[str, Weight] | Literal["natural", "uniform"]
Caps = Positive | dict[str, Positive]
_RULE = "Use up to 100 of A-Z a-z 0-9 . _ - and begin with a letter or a digit"
PhaseName = Annotated[str, matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", _RULE)]


class LearningRate(StageConfig):
    """A hint for the trainer, which is copied to the manifest."""

    shape: Literal["constant", "linear", "cosine", "sqrt"]
    """how the rate changes from start to end over the phase"""
    start: Weight = 1.0
    """factor of the peak rate at the phase's first sample"""
    end: Weight | None = None
    """factor of the peak rate at the phase's end; default: 0, or start if the shape is constant"""

    @model_validator(mode="after")
    def _flat(self) -> "LearningRate":
        if self.shape == "constant" and self.end not in (None, self.start):
            raise ValueError(f"a constant rate cannot go from {self.start:g} to {self.end:g}. Change shape or end")
        return self


class MixPhase(StageConfig):
    """A part of the training with its own weights. Settings that are left out are those of the mix."""

    name: PhaseName
    """such as main or cooldown"""
    share: Annotated[float, Field(gt=0, le=1)] | None = None
    """share of the tokens that are left after the phases with `tokens`"""
    tokens: Count | None = None
    """tokens of the phase; the last phase may leave out share and tokens and takes the rest"""
    domains: Domains | None = None
    """ratios of this phase"""
    temperature: Positive | None = None
    """temperature of this phase"""
    tiers: dict[str, Weight] | None = None
    """multipliers of this phase; 0: not drawn"""
    upsample: dict[str, Weight] | None = None
    """factors of this phase"""
    max_epochs: Caps | None = None
    """caps up to the end of this phase, including earlier phases; a lower cap keeps more for later phases"""
    learning_rate: LearningRate | None = None
    """a hint for the trainer, as factors of the peak rate"""

    @model_validator(mode="after")
    def _one_size(self) -> "MixPhase":
        if self.share is not None and self.tokens is not None:
            raise ValueError("a phase has share or tokens, not both. Remove one of the two")
        return self


class Continues(StageConfig):
    """An earlier mixture that a trainer is in the middle of."""

    manifest: File
    """its manifest.json"""
    at_sample: Annotated[int, AsCount, Field(ge=0)] | None = None
    """number of samples that the trainer has drawn"""
    at_tokens: Count | None = None
    """the same in tokens: samples times seq_len, including padding"""

    @field_validator("manifest")
    @classmethod
    def _the_file(cls, manifest: str) -> str:
        """The manifest file in a folder of shards, since `latest` may point elsewhere later."""
        return manifest_at(manifest)

    @model_validator(mode="after")
    def _one_place(self) -> "Continues":
        if (self.at_sample is None) == (self.at_tokens is None):
            raise ValueError("the trainer's position is at_sample or at_tokens. Write exactly one of them")
        return self


class MixOptions(StageConfig):
    """The field `mix`."""

    domains: Domains = "natural"
    """ratios by domain, natural (by tokens times multipliers) or uniform"""
    temperature: Positive | None = None
    """with natural: the share of a domain is proportional to its tokens to the power of 1/temperature"""
    tiers: dict[str, Weight] | None = None
    """how often a token of a tier is drawn, relative to others of its domain; 0: not drawn"""
    upsample: dict[str, Weight] = Field(default_factory=dict)
    """the same by source"""
    tokens: Count | None = None
    """tokens of the whole training, such as 100B; default: as many as the groups have"""
    max_epochs: Caps = MAX_EPOCHS
    """how often a text may be drawn in all phases together: a number, or by group, source or tier, and default"""
    max_generated: Annotated[float, Field(ge=0, le=1)] | None = None
    """the largest share of tokens from generated sources; a mixture with more is refused"""
    max_family_epochs: Positive | None = None
    """how often a parent may be seen on average, itself and in all that was generated from it together"""
    phases: tuple[MixPhase, ...] = ()
    """the phases of the training, in order; without any, there is one, called main"""
    continues: Continues | None = None
    """an earlier mixture, and the trainer's position in it"""
