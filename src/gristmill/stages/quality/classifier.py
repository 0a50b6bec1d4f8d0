"""Trains a classifier of good and other text (fastText: Joulin et al. 2016; as a filter: DCLM, Li et al. 2024; from the
scores of a judge: FineWeb-Edu, Penedo et al. 2024).

    quality:
      classifiers:
        edu: {positives: {sources: [reference]}, negatives: {sources: [crawl]}, sample_bytes: 100MB}

The model file is a fastText model that the library can load, followed by the report (classifier_report.py). The same
texts give the same bytes, in any order and any number of pieces.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.stages.contract import Fit
from gristmill.stages.quality.classifier_config import ClassifierFields as ClassifierFields
from gristmill.stages.quality.classifier_config import Config as Config
from gristmill.stages.quality.classifier_config import Options
from gristmill.stages.quality.texts import NEGATIVE, POSITIVE
from gristmill.stages.shared import public_suffix
from gristmill.warned import Warnings

LIBRARIES = (*public_suffix.LIBRARIES, "unicode")
SUFFIX = "bin"


def sides(config: Config) -> dict[str, tuple[str, ...]]:
    """The sources of each side."""
    return {POSITIVE: config.positives.sources, NEGATIVE: config.negatives.sources}


def reads(config: Config) -> tuple[str, ...]:
    return tuple(f"quality_{config.name}_text.{name}" for name in ("sampled", "side", "target", "group", "language"))


def fit(batches: Iterable[pa.RecordBatch], config: Config, path: Path) -> dict[str, Any]:
    # Imported here, because every command imports this module's config, but only workers train.
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
        counted = named.group_by(["side", "language"], use_threads=False).aggregate([([], "count_all")])
        for entry in counted.to_pylist():
            counts = languages.setdefault(entry["side"], {})
            name = entry["language"] or UNKNOWN
            counts[name] = counts.get(name, 0) + entry["count_all"]
    trained = train(pa.concat_tables(tables), config)
    path.write_bytes(trained.model)
    return {**counts_of(trained.report), "languages": languages}


def counts_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a report: everything but the n-grams."""
    return {name: value for name, value in report.items() if name != "telling"}


UNKNOWN = "unknown"
"""The language of texts without a measured language."""
MOST_APART = 0.3
"""The share of one class's texts whose language is less common in the other class."""


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
        ", ".join(f"{name} {part:.0%}" for name, part in sorted(side.items(), key=lambda one: (-one[1], one[0]))[:3])
        for side in shares
    ]
    return [
        f"the classes have different languages (high: {most[0]}; low: {most[1]}), so the classifier may have learned "
        "the language. Train on one language, or rank within languages (per: [language])"
    ]


_SHORTCUTS = {
    "passages": (
        "without passages of five words that many texts of one class share",
        "it has learned the boilerplate of a source. Remove the footer or menu from the texts",
    ),
    "ngrams": (
        "without the {n} most informative n-grams of each class",
        "it recognises the classes by a few words. Read them in the report, and remove what is unrelated to quality",
    ),
    "signs": (
        "without markup and words that contain no letter",
        "it may have learned how the texts were extracted. Remove the markup from both classes in the same way",
    ),
    "length": ("with all texts cut to one length", "it may have learned their length. Use classes of similar length"),
}


def warnings(found: Mapping[str, Any], config: Options) -> Sequence[str]:
    from gristmill.stages.quality.classifier_report import MOST_LOST, STRIPPED

    messages = Warnings()
    for name, change in found.get("counterfactuals", {}).items():
        lost = change["separation_lost"]
        if lost > MOST_LOST[name]:
            what, meaning = _SHORTCUTS[name]
            messages.add(
                "shortcut",
                f"{what.format(n=STRIPPED)}, the classifier loses {lost:.0%} of what separates the classes (AUC "
                f"{change['auc_before']:.3f}, then {change['auc_after']:.3f}): {meaning}",
            )
    messages += _languages_apart(found.get("languages", {}))
    held = found.get("texts", {}).get("held_out", {})
    alone = [side for side, counts in held.items() if counts["sites"] == 1 and counts["documents"]]
    if alone and found.get("held_out_by_site"):
        messages.add(
            "held_out",
            f"the held-out texts of the class {' and '.join(alone)} come from one site, so AUC and recall are rough: "
            "another seed holds out another site. Add texts of other sites",
        )
    if config.held_out_share > 0 and found.get("held_out_by_site") == 0:
        messages.add(
            "held_out",
            "all texts of one class come from one site, so the held-out texts do, too, and the measured quality is too "
            "good. Add texts of other sites",
        )
    if "auc" not in found and found:
        messages.add(
            "held_out", "the held-out texts lack a class, so the classifier cannot be measured. Raise held_out_share"
        )
    both = found.get("removed", {}).get("on_both_sides", 0)
    if both:
        messages.add(
            "both_classes", f"{both:,} texts are in both classes and were left out. Is a source in the wrong class?"
        )
    return messages


STAGE = Fit(version=2, config=Config, libraries=LIBRARIES, reads=reads, fit=fit, suffix=SUFFIX, warnings=warnings)
