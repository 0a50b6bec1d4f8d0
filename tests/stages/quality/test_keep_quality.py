"""Cutoffs: the requested share of every group is kept, floors hold, and a changed cutoff scores and ranks nothing."""

import hashlib
import itertools
import json
import random
from collections import Counter

import pyarrow as pa
import pytest
from pydantic import ValidationError

from exchanged import run_step
from gristmill.errors import UserError
from gristmill.query.removal.funnel import funnels
from gristmill.query.removal.whatif import what_if
from gristmill.stages.quality import keep_quality
from gristmill.stages.quality.keep_quality import Config

DOMAINS = {"crawl": "web", "books": "reference"}


def documents(count=400, seed=1):
    """English scores high, Swahili low; a few have no score."""
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        language = draw.choices(["en", "de", "sw"], [8, 3, 1])[0]
        score = draw.random() * {"en": 1, "de": 0.6, "sw": 0.2}[language]
        rows.append(
            {
                "quality.edu": None if number % 50 == 0 else score,
                "quality.dclm": draw.random() ** 3,
                "language.label": language,
                "source": draw.choice(["crawl", "books"]),
                "text_bytes": draw.randint(1, 900),
                "doc_id": hashlib.md5(b"%d" % number).digest(),
            }
        )
    kinds = {"doc_id": pa.binary(16), "quality.edu": pa.float32(), "text_bytes": pa.int64()}
    return pa.table({name: pa.array([row[name] for row in rows], kinds.get(name)) for name in rows[0]})


def judged(config, table=None, cuts=(0, 130, 131)):
    """Rows with the results of the step, and its metrics."""
    table = documents() if table is None else table
    bounds = [*cuts, table.num_rows]
    parts = [table.slice(a, b - a).combine_chunks() for a, b in itertools.pairwise(bounds)]
    layers, _ = run_step(keep_quality, config, parts, bits=2)
    return [
        {**row, **answer} for row, answer in zip(table.to_pylist(), pa.concat_tables(layers).to_pylist(), strict=True)
    ]


def kept_of(rows, **where):
    chosen = [row for row in rows if all(row[name] == value for name, value in where.items())]
    scored = [row for row in chosen if row["score"] is not None]
    return sum(row["drop"] is None for row in scored), len(scored)


def test_the_best_share_of_each_language_stays():
    rows = judged(Config(score="quality.edu", keep_best=0.1, per=("language",)))
    for language in ("en", "de", "sw"):
        kept, scored = kept_of(rows, **{"language.label": language})
        assert abs(kept - 0.1 * scored) <= 1
        of = [row for row in rows if row["language.label"] == language and row["score"] is not None]
        worst = min(row["score"] for row in of if row["drop"] is None)
        assert all(row["score"] <= worst for row in of if row["drop"])
    gone = next(row for row in rows if row["drop"])
    assert gone["drop"] == "low_quality"
    assert gone["detail"].startswith(f"group = {gone['language.label']}, score = ")
    assert gone["detail"].endswith(" < 0.9")


def test_one_cutoff_for_all_erases_what_scores_low_and_a_floor_keeps_its_best():
    alone = judged(Config(score="quality.edu", keep_best=0.2))
    assert kept_of(alone, **{"language.label": "sw"})[0] == 0
    floored = judged(Config(score="quality.edu", keep_best=0.2, floors={"language": 0.25}))
    kept, scored = kept_of(floored, **{"language.label": "sw"})
    assert 0 <= kept - 0.25 * scored < 1
    assert kept_of(alone, **{"language.label": "en"}) == kept_of(floored, **{"language.label": "en"})


def test_a_floor_keeps_one_document_of_the_smallest_group():
    table = documents().slice(1, 40)
    rows = judged(Config(score="quality.edu", min_score=2, floors={"language": 0.001}), table, (0, 7))
    kept = Counter(row["language.label"] for row in rows if row["drop"] is None)
    assert kept == dict.fromkeys(set(table["language.label"].to_pylist()), 1)


def test_shares_may_be_counted_in_bytes():
    rows = judged(Config(score="quality.edu", keep_best=0.5, by="bytes"))
    sizes = Counter()
    for row in rows:
        if row["score"] is not None:
            sizes[row["drop"]] += row["text_bytes"]
    assert abs(sizes[None] - sizes["low_quality"]) <= 2 * 900


def test_exceptions_override_the_cutoff_sources_last():
    config = Config(
        score="quality.edu",
        min_score=0.5,
        by_language={"SW": {"min_score": None}},
        by_domain={"web": {"min_score": 0.9}},
        by_source={"books": {"min_score": 0.1}},
        source_domains=DOMAINS,
    )
    keep_quality.check(config)
    for row in judged(config):
        if row["score"] is not None:
            # A domain overrides a language, so only a source with neither rule would use that of Swahili.
            least = 0.1 if row["source"] == "books" else 0.9
            assert (row["drop"] is None) == (row["score"] >= least)
    assert list(keep_quality.exceptions(config, "min_score")) == ["sw", "web", "books"]


def test_a_plain_threshold_ranks_nothing_and_reads_no_rank():
    config = Config(score="quality.edu", min_score=0.4)
    assert list(keep_quality.prerequisites(config)) == []
    assert keep_quality.schema(config).names == ["drop", "detail", "score"]
    rows = judged(config)
    assert all((row["drop"] is None) == (row["score"] >= 0.4) for row in rows if row["score"] is not None)
    assert "score = " in next(row["detail"] for row in rows if row["drop"])


def test_without_a_cutoff_nothing_goes_and_buckets_are_equal_shares():
    rows = judged(Config(score="quality.edu", buckets=20))
    assert not any(row["drop"] for row in rows)
    sizes = Counter(row["bucket"] for row in rows if row["bucket"] is not None)
    assert sorted(sizes) == list(range(20))
    assert max(sizes.values()) - min(sizes.values()) <= 1
    assert all((row["rank"] is None) == (row["quality.edu"] is None) for row in rows)


@pytest.mark.parametrize("unscored", ["keep", "drop"])
def test_documents_without_a_score_go_where_the_recipe_says(unscored):
    rows = judged(Config(score="quality.edu", keep_best=0.5, unscored=unscored))
    found = {row["drop"] for row in rows if row["quality.edu"] is None}
    assert found == ({None} if unscored == "keep" else {"unscored"})


def test_scores_are_joined():
    """The highest, the mean, and the mean of the ranks within the group, which does not depend on scales."""
    table = documents()
    pairs = (("max(quality.edu, quality.dclm)", max), ("(quality.edu + quality.dclm) / 2", lambda a, b: (a + b) / 2))
    for score, join in pairs:
        for row in judged(Config(score=score, buckets=2), table):
            if row["quality.edu"] is None:
                assert row["score"] is None
            else:
                assert row["score"] == join(row["quality.edu"], row["quality.dclm"])
    per = ("language",)
    plain = judged(Config(score={"rank_mean": ["quality.edu", "quality.dclm"]}, per=per), table)
    scaled = judged(Config(score={"rank_mean": ["quality.edu * 64 - 7", "quality.dclm / 2"]}, per=per), table)
    assert [row["rank"] for row in plain] == [row["rank"] for row in scaled]
    single = [judged(Config(score=one, per=per), table) for one in ("quality.edu", "quality.dclm")]
    for row, first, second in zip(plain, *single, strict=True):
        if row["score"] is not None:
            assert row["score"] == (first["rank"] + second["rank"]) / 2


def test_metrics_have_the_score_at_the_cutoff():
    """The best document below it, once for each group, for any batches."""
    config = Config(score="quality.edu", keep_best=0.3, per=("language",), by="bytes")
    table = documents()
    layers = {}
    for name, module, part in keep_quality.prerequisites(config):
        (layer,), _ = run_step(keep_quality.quality_ranks, part, [table])
        layers |= {f"{name}.{column}": layer[column] for column in layer.column_names}
        assert module == "gristmill.stages.quality.quality_ranks"
    table = pa.table({**{name: table[name] for name in table.column_names}, **layers})
    found, rows = {}, []
    for start in range(0, 400, 80):
        batch = table.slice(start, 80).combine_chunks().to_batches()[0]
        answers = keep_quality.apply(batch, config)
        rows += [{**row, **answer} for row, answer in zip(batch.to_pylist(), answers.to_pylist(), strict=True)]
        for group, cutoffs in keep_quality.metrics(batch, answers, config)["cutoffs"].items():
            assert group not in found
            found[group] = cutoffs["0.7"]
    for language, score in found.items():
        assert score == max(row["score"] for row in rows if row["drop"] and row["language.label"] == language)
    assert set(found) == {"en", "de", "sw"}


def verdicts(kept, low, unscored=0):
    counts = {"kept": kept, "low_quality": low, "unscored": unscored}
    return {name: {"documents": count, "text_bytes": count} for name, count in counts.items() if count}


def test_a_run_warns_about_what_one_cutoff_erases_and_about_cutoffs_without_effect():
    config = Config(score="quality.edu", keep_best=0.1)
    found = {
        "groups": {"all documents": verdicts(90, 700)},
        "language": {"en": verdicts(90, 600), "sw": verdicts(0, 100)},
    }
    (messages,) = keep_quality.warnings(found, config)
    assert "95% of 1 language: sw 100.0%" in messages
    (messages,) = keep_quality.warnings({"groups": {"all documents": verdicts(9, 0)}}, config)
    assert messages == "no document was dropped for its score"
    per = Config(score="quality.edu", keep_best=0.1, per=("language",))
    (messages,) = keep_quality.warnings({"groups": {"en": verdicts(9, 81), "is": verdicts(0, 4)}}, per)
    assert "1 group keeps no document (is; the largest has 4)" in messages
    (messages,) = keep_quality.warnings({"groups": {"en": verdicts(9, 81, 2)}}, per)
    assert messages == "2 of 92 documents have no score and are kept (unscored)"


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"score": "quality.edu +"}, "found the end"),
        ({"score": {"rank_mean": ["quality.edu"]}}, "at least 2"),
        ({"score": "quality.edu", "keep_best": 90}, "less than or equal to 1"),
        ({"score": "quality.edu", "per": ["language", "language"]}, "twice"),
        ({"score": "quality.edu", "by_language": {"en": {}}}, "sets no threshold"),
        ({"score": "quality.edu", "floors": {"language": 0.1}}, "there is no cutoff"),
    ],
)
def test_invalid_settings_are_refused(fields, fault):
    with pytest.raises(ValidationError, match=fault):
        Config.model_validate(fields)


def test_domains_are_those_of_sources_and_in_no_key_without_use():
    with pytest.raises(UserError, match="no source has one"):
        keep_quality.check(Config(score="quality.edu", per=("domain",)))
    with pytest.raises(UserError, match=r"by_domain\.wbe"):
        keep_quality.check(Config(score="quality.edu", by_domain={"wbe": {"min_score": 1}}, source_domains=DOMAINS))
    assert Config(score="quality.edu", source_domains=DOMAINS).source_domains == {}
    assert Config(score="quality.edu", per=["domain"], source_domains=DOMAINS).source_domains == DOMAINS


STEPS = "  - signals\n  - keep_quality: {{score: -signals.words, {cutoff}}}"


def test_a_changed_cutoff_runs_neither_scoring_nor_ranking(project):
    """In a whole run, only the verdicts and what reads them are computed again."""
    project.write_recipe(STEPS.format(cutoff="keep_best: 0.5, buckets: 4, per: [source]"))
    first = project.run()
    assert {"all/signals", "all/quality_ranks", "all/keep_quality"} <= set(project.executed(first))
    project.write_recipe(STEPS.format(cutoff="keep_best: 0.4, min_score: -6, buckets: 8, per: [source]"))
    ran = set(project.executed(project.run()))
    assert "all/keep_quality" in ran
    assert not {"all/signals", "all/quality_ranks"} & ran


def test_whatif_uses_stored_ranks_and_refuses_changes_that_need_new_ranks(project):
    project.write_recipe(STEPS.format(cutoff="keep_best: 0.5"))
    run = project.run()
    mill = project.mill()
    (answer,) = what_if(mill, mill.dry_run(), ["keep_quality.keep_best=0.25"])
    assert (answer.come.documents, answer.go.documents) == (0, answer.corpus - round(answer.corpus / 2))
    assert answer.corpus == run.states["notes/corpus"].metrics["funnel"]["kept"]["rows"]
    with pytest.raises(
        UserError, match="quality_ranks, which runs before all/keep_quality and would have to run again"
    ):
        what_if(mill, mill.dry_run(), ["keep_quality.per=[source]"])


def test_by_tokens_needs_the_step_that_counts_them(project):
    project.write_recipe(STEPS.format(cutoff="keep_best: 0.5, by: tokens"))
    with pytest.raises(UserError, match=r"no step count_tokens comes before it\. Add - count_tokens"):
        project.mill()


def test_a_floor_for_domains_is_filled_from_the_sources(project):
    steps = STEPS.format(cutoff="floors: {domain: 0.5}, min_score: 0")
    project.write_recipe(steps)
    with pytest.raises(UserError, match="Add domain: to sources"):
        project.mill()
    project.recipe.write_text(project.recipe.read_text().replace("kind: text,", "kind: text, domain: web,"))
    (step,) = (step for step in project.mill().recipe.steps if step.name == "keep_quality")
    assert json.loads(step.config.model_dump_json())["source_domains"] == {"notes": "web"}


def test_the_funnel_says_which_share_is_kept(project):
    """`keep_best: 0.25` of each source; a threshold has no share."""
    project.write_recipe(STEPS.format(cutoff="keep_best: 0.25, per: [source]"))
    assert funnels(project.run())["notes"]["scopes"] == {"all/keep_quality": "(kept the best 25.0% of each source)"}
    project.write_recipe(STEPS.format(cutoff="min_score: -6"))
    assert funnels(project.run())["notes"]["scopes"] == {}
