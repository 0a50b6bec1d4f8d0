"""Runs the stage on plain texts."""

import pyarrow as pa

from gristmill.stages.scrub import scrub


def scrub_texts(texts, languages=None, urls=None, locators=None, **settings):
    """The results of the stage."""
    config = scrub.Config.model_validate(settings)
    columns = {
        "text": pa.array(texts, pa.string()),
        "url": pa.array(urls or [None] * len(texts), pa.string()),
        "source": pa.array(["mill"] * len(texts)),
        "locator": pa.array(locators or ["mill.txt#0"] * len(texts), pa.string()),
    }
    if languages:
        columns["language.label"] = pa.array(languages, pa.string())
    return scrub.apply(pa.record_batch(columns), config)


def found_in(answers):
    """For each row the set of (start, stop, type)."""
    found = []
    for spans, types in zip(answers["replaced_spans"].to_pylist(), answers["replaced_types"].to_pylist(), strict=True):
        found.append(set(zip((spans or [])[::2], (spans or [])[1::2], types or [], strict=True)))
    return found


def precision_and_recall(wanted, found, kind):
    """For spans that agree to the byte."""
    right = sum(
        len({one for one in spans if one[2] == kind} & set(known)) for known, spans in zip(wanted, found, strict=True)
    )
    given = sum(one[2] == kind for spans in found for one in spans)
    known = sum(one[2] == kind for spans in wanted for one in spans)
    return right / max(given, 1), right / max(known, 1)
