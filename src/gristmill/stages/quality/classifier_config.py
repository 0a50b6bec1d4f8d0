"""The settings of a classifier (classifier.py)."""

from typing import Annotated

from pydantic import Field, model_validator

from gristmill.stages.contract import AsCount, Bytes, File, SourceName, StageConfig


class Side(StageConfig):
    """Where the texts of a class come from."""

    sources: Annotated[tuple[SourceName, ...], Field(max_length=1000)] = ()
    """Sources of the recipe."""
    files: Annotated[tuple[File, ...], Field(max_length=1000)] = ()
    """JSONL, JSON, CSV or Parquet files with `text` and, where they have it, `url`; compressed or not. They are taken
    whole."""


class Labels(StageConfig):
    """A file of texts that a person or a judge has scored."""

    file: File
    """JSONL, JSON, CSV or Parquet, compressed or not."""
    text: Annotated[str, Field(min_length=1, max_length=100)] = "text"
    """The field of the text."""
    score: Annotated[str, Field(min_length=1, max_length=100)] = "score"
    """The field of the score, from 0 to best_score."""
    url: Annotated[str, Field(min_length=1, max_length=100)] = "url"
    """The field of the URL, by whose site texts are held out together; a text without one is a site of its own."""
    best_score: Annotated[float, Field(gt=0, le=1e6)] = 5.0
    """The score of the best text: 5 for judges that give 0 to 5, 1 for labels 0 and 1."""


class Options(StageConfig):
    """How a classifier is trained."""

    held_out_share: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    """Bytes of each side that are never trained on, by whole sites: the report is made of them."""
    balance: bool = True
    """Whether both sides count the same, however many examples they have."""
    word_ngrams: Annotated[int, Field(ge=1, le=5)] = 2
    """Words of the longest word n-gram."""
    char_ngrams: tuple[Annotated[int, Field(ge=0, le=12)], Annotated[int, Field(ge=0, le=12)]] = (0, 0)
    """Characters of the shortest and the longest n-gram of a word; 0 and 0: none."""
    buckets: Annotated[int, AsCount, Field(ge=1, le=200_000_000)] = 2_000_000
    """Rows that the hashed n-grams share, four bytes each in the model, eight in training."""
    min_count: Annotated[int, AsCount, Field(ge=1)] = 3
    """Times that a word must be seen to have a row of its own."""
    max_words: Annotated[int, AsCount, Field(ge=1, le=100_000_000)] = 1_000_000
    """Words with a row of their own, at most: the most frequent."""
    epochs: Annotated[int, Field(ge=1, le=100)] = 5
    """Times that all examples are gone through."""
    learning_rate: Annotated[float, Field(gt=0, le=100)] = 2.0
    """The first step of a weight (AdaGrad)."""
    min_words: Annotated[int, AsCount, Field(ge=1, le=10_000)] = 20
    """Words that a text must have to be learned from."""
    example_words: Annotated[int, AsCount, Field(ge=10, le=100_000)] = 512
    """Words of an example: longer texts are cut into several, so that no book outweighs a page."""
    examples_per_document: Annotated[int, AsCount, Field(ge=1, le=100_000)] = 64
    """Examples that one text gives at most, from its start on."""
    seed: int = 0
    """Another seed takes other documents, holds others out, and goes through them in another order."""

    @model_validator(mode="after")
    def _in_order(self) -> "Options":
        least, most = self.char_ngrams
        if (least == 0) != (most == 0) or least > most:
            raise ValueError(
                f"char_ngrams are the shortest and the longest, such as [3, 5]; {least}, {most} is no range"
            )
        return self


class Fields(Options):
    """What a recipe says of a classifier."""

    positives: Side = Side()
    """Texts that should score high."""
    negatives: Side = Side()
    """Texts that should score low."""
    labels: Annotated[tuple[Labels, ...], Field(max_length=100)] = ()
    """Texts with scores; a text with at least 50% of the best score counts as a positive."""
    sample_bytes: Annotated[Bytes, Field(ge=1)] = 100_000_000
    """Bytes of text that are taken of the sources of each side."""

    @model_validator(mode="after")
    def _has_both(self) -> "Fields":
        for name, side in (("positives", self.positives), ("negatives", self.negatives)):
            if not (side.sources or side.files or self.labels):
                raise ValueError(f"there are no {name}. Name sources or files of them, or labels")
        return self


class Config(Fields):
    name: str
    """Filled by the recipe's loader."""
