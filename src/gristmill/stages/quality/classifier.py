"""Trains a classifier that tells good text from other text (fastText: Joulin et al. 2016; as a filter: DCLM, Li et al.
2024; from scores of a judge: FineWeb-Edu, Penedo et al. 2024).

    quality:
      classifiers:
        edu: {positives: {sources: [reference]}, negatives: {sources: [crawl]}, sample_bytes: 100MB}

The model file is a fastText model that the library loads; behind it lies the report (classifier_report.py). The same
texts give the same bytes, in whichever order and pieces they come.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from gristmill.stages.contract import AsCount, Bytes, File, Fit, SourceName, StageConfig
from gristmill.stages.quality.texts import NEGATIVE, POSITIVE
from gristmill.stages.shared import public_suffix

LIBRARIES = (*public_suffix.LIBRARIES, "unicode")
SUFFIX = "bin"


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


def sides(config: Config) -> dict[str, tuple[str, ...]]:
    """The sources of each side."""
    return {POSITIVE: config.positives.sources, NEGATIVE: config.negatives.sources}


def reads(config: Config) -> tuple[str, ...]:
    return tuple(f"quality_{config.name}_text.{name}" for name in ("sampled", "side", "target", "group", "language"))


def fit(batches: Iterable[pa.RecordBatch], config: Config, path: Path) -> dict[str, Any]:
    # Here, not above: every command looks at this module's config, and only a worker trains.
    from gristmill.stages.quality.classifier_examples import SCHEMA
    from gristmill.stages.quality.classifier_labels import labelled_files
    from gristmill.stages.quality.classifier_train import train

    tables = [labelled_files(config)]
    languages: dict[str, dict[str, int]] = {}
    for batch in batches:
        text, side, target, group, language = (batch.column(place) for place in range(5))
        table = pa.table([text, pc.equal(side, POSITIVE), target, group], names=SCHEMA.names)
        tables.append(table.filter(text.is_valid()).cast(SCHEMA))
        named = pa.table({"side": side, "language": language.cast(pa.string())}).filter(text.is_valid())
        for entry in named.group_by(["side", "language"]).aggregate([([], "count_all")]).to_pylist():
            counts = languages.setdefault(entry["side"], {})
            name = entry["language"] or UNKNOWN
            counts[name] = counts.get(name, 0) + entry["count_all"]
    trained = train(pa.concat_tables(tables), config)
    path.write_bytes(trained.model)
    return {**counts_of(trained.report), "languages": languages}


def counts_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a report: all of it but the n-grams."""
    return {name: value for name, value in report.items() if name != "telling"}


UNKNOWN = "unknown"
"""The language of texts of which none was measured."""
MOST_APART = 0.3
"""Share of the texts of one class whose language the other does not have as often."""


def _languages_apart(languages: Mapping[str, Mapping[str, int]]) -> list[str]:
    """That the classes are of different languages: then those are what is easiest to learn."""
    high, low = languages.get(POSITIVE, {}), languages.get(NEGATIVE, {})
    if not high or not low:
        return []
    unmeasured = [name for name, side in (("high", high), ("low", low)) if side.keys() == {UNKNOWN}]
    if len(unmeasured) == 1:
        fact = f"the languages of the class {unmeasured[0]} were not measured, so it may have learned a language"
        return [f"{fact}. Add the step language to the route of its documents"]
    shares = [{name: count / sum(side.values()) for name, count in side.items()} for side in (high, low)]
    apart = sum(abs(shares[0].get(name, 0.0) - shares[1].get(name, 0.0)) for name in {*high, *low}) / 2
    if apart <= MOST_APART:
        return []
    most = [
        ", ".join(f"{name} {part:.0%}" for name, part in sorted(side.items(), key=lambda one: (-one[1], one[0]))[:3])
        for side in shares
    ]
    return [
        f"the classes are of different languages (high: {most[0]}; low: {most[1]}), so it may have learned that. "
        "Train on one language, or cut by language (per: [language])"
    ]


_SHORTCUTS = {
    "passages": (
        "without passages of five words that many texts of one class share",
        "it has learned the boilerplate of a source. Take the footer or menu out of the texts",
    ),
    "ngrams": (
        "without its {n} most telling n-grams of each class",
        "it knows the classes by a few words. Read them in the report, and take out what is no matter of quality",
    ),
    "signs": (
        "without markup and words that hold no letter",
        "it may have learned how the texts were extracted. Take the markup out of both classes in the same way",
    ),
    "length": ("with all texts cut to one length", "it may have learned their length. Choose classes of like lengths"),
}


def warnings(found: Mapping[str, Any], config: Options) -> Sequence[str]:
    """Shortcuts, and what could not be judged."""
    from gristmill.stages.quality.classifier_report import MOST_LOST, STRIPPED

    told = []
    for name, change in found.get("counterfactuals", {}).items():
        lost = change["separation_lost"]
        if lost > MOST_LOST[name]:
            what, meaning = _SHORTCUTS[name]
            told.append(
                f"{what.format(n=STRIPPED)}, the classifier loses {lost:.0%} of what separates the classes (AUC "
                f"{change['auc_before']:.3f}, then {change['auc_after']:.3f}): {meaning}"
            )
    told += _languages_apart(found.get("languages", {}))
    held = found.get("texts", {}).get("held_out", {})
    alone = [side for side, counts in held.items() if counts["sites"] == 1 and counts["documents"]]
    if alone and found.get("held_out_by_site"):
        told.append(
            f"what is held out of the class {' and '.join(alone)} is of one site, so AUC and recall are rough: "
            "another seed holds out another. Add texts of other sites"
        )
    if config.held_out_share > 0 and found.get("held_out_by_site") == 0:
        told.append(
            "all texts of one side are of one site, so those held out are of the same: what is measured on them "
            "is too good. Add texts of other sites"
        )
    if "auc" not in found and found:
        told.append("no text of both sides is held out, so nothing is known of the classifier. Raise held_out_share")
    both = found.get("removed", {}).get("on_both_sides", 0)
    if both:
        told.append(f"{both:,} texts stand on both sides and were left out. Is a source on the wrong one?")
    return told


STAGE = Fit(version=2, config=Config, libraries=LIBRARIES, reads=reads, fit=fit, suffix=SUFFIX, warnings=warnings)
