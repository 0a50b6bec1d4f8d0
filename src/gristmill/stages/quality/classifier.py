"""Trains a classifier of good and other text (fastText: Joulin et al. 2016; as a filter: DCLM, Li et al. 2024; from the
scores of a judge: FineWeb-Edu, Penedo et al. 2024).

    quality:
      classifiers:
        edu: {positives: {sources: [reference]}, negatives: {sources: [crawl]}, sample_bytes: 100MB}

The model file is a fastText model that the library can load. The same texts give the same bytes, in any order and any
number of pieces.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.stages.contract import Fit
from gristmill.stages.quality.classifier_settings import ClassifierFields, Config, Options
from gristmill.stages.quality.model_kind import ModelKind, ModelTable
from gristmill.stages.quality.texts import NEGATIVE, POSITIVE
from gristmill.stages.shared import public_suffix
from gristmill.warned import Warnings

UNKNOWN = "unknown"
"""The language of texts without a measured language."""
MOST_APART = 0.3
"""The share of one class's texts whose language is less common in the other class."""


def sides(config: Config) -> dict[str, tuple[str, ...]]:
    """The sources of each side."""
    return {POSITIVE: config.positives.sources, NEGATIVE: config.negatives.sources}


def reads(config: Config) -> tuple[str, ...]:
    if not any(sides(config).values()):  # its texts are all in files
        return ()
    return tuple(f"quality_{config.name}_text.{name}" for name in ("sampled", "side", "target", "group", "language"))


def fit(batches: Iterable[pa.RecordBatch], config: Config, path: Path) -> dict[str, Any]:
    # Imported here, because every command imports this module's config, but only workers train.
    from gristmill.stages.quality.classifier_texts import SCHEMA, labelled_files
    from gristmill.stages.quality.classifier_train import train

    tables = [labelled_files(config)]
    languages: dict[str, dict[str, int]] = {}
    for batch in batches:
        text, side, target, group, language = batch.columns[:5]
        table = pa.table([text, pc.equal(side, POSITIVE), target, group], names=SCHEMA.names)
        tables.append(table.filter(text.is_valid()).cast(SCHEMA))
        sampled = pa.table({"side": side, "language": language.cast(pa.string())}).filter(text.is_valid())
        counts = sampled.group_by(["side", "language"], use_threads=False).aggregate([([], "count_all")])
        for entry in counts.to_pylist():
            of_side = languages.setdefault(entry["side"], {})
            name = entry["language"] or UNKNOWN
            of_side[name] = of_side.get(name, 0) + entry["count_all"]
    trained = train(pa.concat_tables(tables), config)
    path.write_bytes(trained.model)
    return {**trained.metrics, "languages": languages}


def _languages_apart(languages: Mapping[str, Mapping[str, int]]) -> list[str]:
    """A warning if the classes have different languages, since a language is the easiest thing to learn."""
    high, low = languages.get(POSITIVE, {}), languages.get(NEGATIVE, {})
    if not high or not low:
        return []
    unmeasured = [name for name, side in (("high", high), ("low", low)) if side.keys() == {UNKNOWN}]
    if len(unmeasured) == 1:
        fact = f"the languages of the class {unmeasured[0]} are unknown, so the classifier may have learned a language"
        return [f"{fact}. Add the step language to the route of its documents"]
    shares = [{name: count / sum(side.values()) for name, count in side.items()} for side in (high, low)]
    apart = sum(abs(shares[0].get(name, 0.0) - shares[1].get(name, 0.0)) for name in {*high, *low}) / 2
    if apart <= MOST_APART:
        return []
    most = [
        ", ".join(f"{name} {part:.0%}" for name, part in sorted(side.items(), key=lambda pair: (-pair[1], pair[0]))[:3])
        for side in shares
    ]
    return [
        f"the classes have different languages (high: {most[0]}; low: {most[1]}), so the classifier may have learned "
        "the language. Train on one language, or rank within languages (per: [language])"
    ]


def warnings(metrics: Mapping[str, Any], config: Options) -> Sequence[str]:
    messages = Warnings()
    messages += _languages_apart(metrics.get("languages", {}))
    held_out = metrics.get("texts", {}).get("held_out", {})
    alone = [side for side, counts in held_out.items() if counts["sites"] == 1 and counts["documents"]]
    if alone and metrics.get("held_out_by_site"):
        messages.add(
            "held_out",
            f"the held-out texts of the class {' and '.join(alone)} come from one site, so AUC and recall are rough: "
            "another seed holds out another site. Add texts of other sites",
        )
    if config.held_out_share > 0 and metrics.get("held_out_by_site") == 0:
        messages.add(
            "held_out",
            "all texts of one class come from one site, so the held-out texts do, too, and the measured quality is too "
            "good. Add texts of other sites",
        )
    if "auc" not in metrics and metrics:
        messages.add(
            "held_out", "the held-out texts lack a class, so the classifier cannot be measured. Raise held_out_share"
        )
    both = metrics.get("removed", {}).get("on_both_sides", 0)
    if both:
        messages.add(
            "both_classes", f"{both:,} texts are in both classes and were left out. Is a source in the wrong class?"
        )
    return messages


def tables(metrics: Mapping[str, Any]) -> Iterator[ModelTable]:
    """The texts that it was trained and measured on, and the measures."""
    yield ModelTable(
        ("texts", "class", "documents", "bytes", "sites"),
        [
            (split.replace("_", " "), side, *(f"{counts[name]:,}" for name in ("documents", "bytes", "sites")))
            for split, classes in metrics["texts"].items()
            for side, counts in classes.items()
        ],
    )
    removed = [(reason.replace("_", " "), f"{count:,}") for reason, count in metrics["removed"].items() if count]
    if removed:
        yield ModelTable(("removed in cleaning", "texts"), removed)
    if "auc" in metrics:
        calibration = metrics["calibration"]
        measures = {
            "AUC": metrics["auc"],
            "AUC by length alone": metrics["auc_of_length"],
            "calibration error": calibration["expected_error"],
            "Brier score": calibration["brier"],
        }
        yield ModelTable(("held out", "value"), [(name, f"{value:.4f}") for name, value in measures.items()])
        thresholds = [
            (
                f">= {threshold}",
                f"{measured['precision']:.3f}" if "precision" in measured else "-",
                f"{measured['recall']:.3f}",
            )
            for threshold, measured in metrics["thresholds"].items()
        ]
        yield ModelTable(("score", "precision", "recall"), thresholds)


STAGE = Fit(
    version=3,
    config=Config,
    libraries=(*public_suffix.LIBRARIES, "unicode"),
    reads=reads,
    fit=fit,
    suffix="bin",
    warnings=warnings,
)
MODELS = ModelKind(fields=ClassifierFields, module=__name__, sides=sides, tables=tables)
