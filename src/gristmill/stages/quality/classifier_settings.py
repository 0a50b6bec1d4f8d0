"""The settings of a classifier (classifier.py)."""

from typing import Annotated

from pydantic import Field, model_validator

from gristmill.stages.contract import AsCount, Bytes, File, SourceName, StageConfig


class ClassTexts(StageConfig):
    """Where the texts of a class come from."""

    sources: Annotated[tuple[SourceName, ...], Field(max_length=1000)] = ()
    """Sources of the recipe."""
    files: Annotated[tuple[File, ...], Field(max_length=1000)] = ()
    """JSONL, JSON, CSV or Parquet files with `text` and optionally `url`; compressed or not. They are used whole."""


class Labels(StageConfig):
    """A file of texts that a person or a judge has scored."""

    file: File
    """JSONL, JSON, CSV or Parquet with `text`, a score and optionally `url`; compressed or not. Texts of one site are
    held out together; a text without a URL counts as its own site."""
    score: Annotated[str, Field(min_length=1, max_length=100)] = "score"
    """The field of the score, from 0 to best_score."""
    best_score: Annotated[float, Field(gt=0, le=1e6)] = 5.0
    """The score of the best text: 5 for judges that give 0 to 5, 1 for labels 0 and 1."""


class Options(StageConfig):
    """How a classifier is trained."""

    held_out_share: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    """Share of each class's bytes that is never trained on, by whole sites. The classifier is measured on it."""
    word_ngrams: Annotated[int, Field(ge=1, le=5)] = 2
    """Words in the longest word n-gram."""
    buckets: Annotated[int, AsCount, Field(ge=1, le=200_000_000)] = 2_000_000
    """Rows that the hashed n-grams share: four bytes each in the model, eight in training."""
    min_count: Annotated[int, AsCount, Field(ge=1)] = 3
    """How often a word must occur to get its own row."""
    epochs: Annotated[int, Field(ge=1, le=100)] = 5
    """Passes over all examples."""
    learning_rate: Annotated[float, Field(gt=0, le=100)] = 2.0
    """The first step of a weight (AdaGrad)."""
    min_words: Annotated[int, AsCount, Field(ge=1, le=10_000)] = 20
    """Words that a text must have to be used."""
    example_words: Annotated[int, AsCount, Field(ge=10, le=100_000)] = 512
    """Words in an example. Longer texts are cut into several, so that a book does not outweigh a page."""
    seed: int = 0
    """Another seed samples and holds out other documents, and trains in another order."""


class ClassifierFields(Options):
    """The settings of a classifier in a recipe."""

    positives: ClassTexts = ClassTexts()
    """Texts that should score high."""
    negatives: ClassTexts = ClassTexts()
    """Texts that should score low."""
    labels: Annotated[tuple[Labels, ...], Field(max_length=100)] = ()
    """Texts with scores. A text with at least 50% of the best score is a positive."""
    sample_bytes: Annotated[Bytes, Field(ge=1)] = 100_000_000
    """Bytes of text that are sampled from the sources of each class."""

    @model_validator(mode="after")
    def _has_both(self) -> "ClassifierFields":
        for name, side in (("positives", self.positives), ("negatives", self.negatives)):
            if not (side.sources or side.files or self.labels):
                raise ValueError(f"there are no {name}. Add sources or files for them, or labels")
        return self


class Config(ClassifierFields):
    name: str
    """Set by the recipe's loader."""
