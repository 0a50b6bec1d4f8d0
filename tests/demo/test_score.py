"""The score counts defects that the right step caught, and the good pages that were lost."""

import re
from collections.abc import Iterator
from pathlib import Path

from demo.score import DECONTAMINATE, Line, Row, Score, TextOf, Texts, score, summary, table
from demo.truth import KINDS, Plant, Sign, Truth

ALL_STEPS = {step for kind in KINDS.values() for step in kind.steps}


def truth() -> Truth:
    """Two plants of every kind and three good pages, two of them originals of copies."""
    planted = Truth(seed=0, scale=1)
    for name, kind in KINDS.items():
        for number in range(2):
            url = f"https://site.example/{name}/{number}"
            match kind.sign:
                case Sign.FILE:
                    plant = Plant(path=f"in/{name}.bin")
                case Sign.PAIR:
                    plant = Plant(url, "s1", original=f"https://site.example/good/{number}")
                case Sign.GONE | Sign.THERE:
                    plant = Plant(url, "s1", text=f"planted {name}")
                case Sign.DROPPED:
                    plant = Plant(url, "s1")
            planted.plants[name].append(plant)
    planted.good = [(f"https://site.example/good/{n}", "s1") for n in range(3)]
    return planted


def rows(planted: Truth, missed: str = "") -> Iterator[Row]:
    """The rows of a run that catches everything except the first plant of kind `missed`."""
    for url, snapshot in planted.good:
        yield Row("web", url, "a.warc.gz#1", snapshot, None, None)
    for name, kind in KINDS.items():
        for number, plant in enumerate(planted.plants[name]):
            stage: str | None = kind.steps[0]
            reason: str | None = sorted(kind.reasons)[0] if kind.reasons else f"is_{name}"
            if kind.sign in (Sign.GONE, Sign.THERE) or (name == missed and number == 0):
                stage, reason = None, None
            locator = f"{plant.path}#{number}" if plant.path else f"a.warc.gz#{number}"
            yield Row("web", plant.url, locator.removeprefix("in/"), plant.snapshot, stage, reason)


def text_of(missed: str = "") -> TextOf:
    def text(url: str, snapshot: str) -> Texts:
        name = url.split("/")[-2]
        there = KINDS[name].sign is Sign.THERE
        if name == missed and url.endswith("/0"):
            there = not there
        return Texts(f"before planted  {name} after", f"before planted  {name} after" if there else "before after")

    return text


def line_of(found: Score, kind: str) -> Line:
    return next(line for line in found.lines if line.kind == kind)


def run(planted: Truth, missed: str = "") -> Score:
    return score(planted, rows(planted, missed), ALL_STEPS, text_of(missed))


def test_a_run_that_catches_everything_misses_nothing() -> None:
    """Every kind is counted in full, and every good page is kept."""
    found = run(truth())
    assert {line.kind: (line.caught, line.missed) for line in found.lines} == dict.fromkeys(KINDS, (2, 0))
    assert (found.good.total, found.good.lost) == (3, 0)


def test_a_missed_defect_lowers_its_line_and_no_other() -> None:
    """For each kind, one plant stays in the corpus, and only that line loses one."""
    for missed in KINDS:
        found = run(truth(), missed)
        assert {line.kind: line.missed for line in found.lines} == {kind: int(kind == missed) for kind in KINDS}


def test_a_missing_row_is_a_miss() -> None:
    """A bad record without a row is not caught, and a good page without a row is lost."""
    planted = truth()
    found = score(planted, [], ALL_STEPS, text_of())
    assert all(line.caught == 0 and line.missed == 2 for line in found.lines)
    assert (found.good.lost, found.good.by) == (3, {"no row": 3})


def test_request_records_count_for_no_page() -> None:
    """The row of a request has the URL of a page; its verdict catches nothing and loses nothing."""
    planted = truth()
    page = planted.plants["http_404"][0]
    extra = [Row("web", url, "a.warc.gz#0", "s1", "ingest", "request_record") for url in (page.url, planted.good[0][0])]
    found = score(planted, [*extra, *rows(planted, "http_404")], ALL_STEPS)
    assert line_of(found, "http_404").missed == 1
    assert found.good.lost == 0


def test_a_step_that_is_not_in_the_recipe_misses_nothing() -> None:
    """Kinds without their step are shown as such and never as misses."""
    planted = truth()
    kept = [Row("web", url, "a#0", "s1", None, None) for url, _ in planted.good]
    found = score(planted, kept, {"ingest", "extract"})
    line = line_of(found, "near_copy")
    assert (line.present, line.missed, line.expected_by) == (False, 0, "near_dedup")
    output = {row.split()[0]: row for row in table(found).splitlines()}
    assert "no such step in this recipe" in output["near_copy"]
    assert "no such step in this recipe" not in output["http_404"]


def test_kinds_that_need_the_text_are_not_judged_without_it() -> None:
    """Without texts the line says that it was not measured; it is neither caught nor missed."""
    line = line_of(score(truth(), [], ALL_STEPS), "email")
    assert (line.measured, line.caught, line.missed) == (False, 0, 0)
    assert "not measured" in table(score(truth(), [], ALL_STEPS))


def test_the_wrong_step_or_reason_is_not_a_catch() -> None:
    """A page that another step dropped is not in the corpus, but the responsible step gets no credit."""
    planted = truth()
    url = planted.plants["foreign_language"][0].url
    found = score(planted, [Row("web", url, "a#0", "s1", "heuristics", "too_short")], ALL_STEPS)
    line = line_of(found, "foreign_language")
    assert (line.caught, line.elsewhere, line.missed) == (0, 1, 1)
    cut = score(planted, [Row("web", None, "x/truncated_gzip.bin#7", "s1", "ingest", "http_status")] * 2, ALL_STEPS)
    assert line_of(cut, "truncated_gzip").caught == 0


def test_more_bad_rows_than_plants_in_a_file_count_once_each() -> None:
    """A file with three broken rows and two plants has two catches, for any URL of the rows."""
    planted = truth()
    bad = [Row("web", None, f"s1/truncated_gzip.bin#{n}", "s1", "ingest", "corrupt_gzip") for n in range(3)]
    assert line_of(score(planted, bad, ALL_STEPS), "truncated_gzip").caught == 2


def test_either_of_a_pair_may_be_kept() -> None:
    """If the original was dropped in favour of the copy, the copy counts as caught and the original is not lost."""
    planted = truth()
    copy, original = planted.plants["exact_copy"][0], planted.good[0][0]
    verdicts = [
        Row("web", copy.url, "a#0", "s1", None, None),
        Row("web", original, "a#1", "s1", "exact_dedup", "same_text"),
        *(Row("web", url, "a#2", "s1", None, None) for url, _ in planted.good[1:]),
    ]
    found = score(planted, verdicts, ALL_STEPS)
    assert line_of(found, "exact_copy").caught == 1
    assert found.good.lost == 0


def test_a_copy_whose_original_another_step_dropped_is_not_missed() -> None:
    """url_dedup keeps another snapshot of the original, so the copy is the only one with its text."""
    planted = truth()
    copy, original = planted.plants["exact_copy"][0], planted.good[0][0]
    planted.plants["exact_copy"] = [copy]
    verdicts = [
        Row("web", copy.url, "a#0", "s1", None, None),
        Row("web", original, "a#1", "s1", "url_dedup", "duplicate_url"),
    ]
    line = line_of(score(planted, verdicts, ALL_STEPS), "exact_copy")
    assert (line.caught, line.elsewhere, line.missed) == (0, 1, 0)


def test_a_good_page_is_lost_when_no_copy_of_it_is_kept() -> None:
    """If deduplication drops every copy, or a filter drops a good page, the step and the reason are shown."""
    planted = truth()
    verdicts = [
        Row("web", planted.good[0][0], "a#0", "s1", "near_dedup", "near_duplicate"),
        Row("web", planted.good[1][0], "a#1", "s1", "heuristics", "too_short"),
        Row("web", planted.good[2][0], "a#2", "s1", None, None),
    ]
    found = score(planted, verdicts, ALL_STEPS)
    assert found.good.lost == 2
    assert found.good.by == {"near_dedup: near_duplicate": 1, "heuristics: too_short": 1}
    assert summary(found).endswith("lost: 2 (heuristics: too_short 1, near_dedup: near_duplicate 1)")


def test_another_snapshot_of_a_page_counts_for_it() -> None:
    """A page whose older snapshot was dropped as a duplicate of the newer one is not lost."""
    planted = truth()
    url = planted.good[0][0]
    planted.good = [(url, "s1"), (url, "s2")]
    pair = [Row("web", url, "a#0", "s1", "exact_dedup", "same_url"), Row("web", url, "b#0", "s2", None, None)]
    assert score(planted, pair, ALL_STEPS).good.lost == 0


def test_a_string_that_was_not_extracted_is_no_catch() -> None:
    """A string that no later step saw is gone, but the step that would have removed it gets no credit."""
    planted = truth()
    unseen = score(planted, rows(planted), ALL_STEPS, lambda url, snapshot: Texts("before after", "before after"))
    for kind in ("boilerplate_line", "eval_short", "email"):
        line = line_of(unseen, kind)
        assert (line.caught, line.elsewhere, line.missed) == (0, 2, 0)


def test_a_document_dropped_without_an_eval_item_is_a_false_positive() -> None:
    """It lowers the precision of all eval items together, since it belongs to no single kind."""
    planted = truth()
    url, snapshot = planted.good[2]
    verdicts = [row for row in rows(planted) if row.url != url]
    for kind in ("eval_whole", "eval_short"):
        verdicts = [
            row._replace(stage=DECONTAMINATE, reason="eval_item") if kind in str(row.url) else row for row in verdicts
        ]
    right = score(planted, verdicts, ALL_STEPS, text_of())
    assert (right.evals.planted, right.evals.caught, right.evals.false_positives) == (8, 8, 0)
    wrong = Row("web", url, "a.warc.gz#9", snapshot, DECONTAMINATE, "eval_item")
    found = score(planted, [*verdicts, wrong], ALL_STEPS, text_of())
    assert (found.evals.caught, found.evals.false_positives, found.evals.recall) == (8, 1, 1.0)
    assert f"eval items: recall 1.000, precision {8 / 9:.3f}, false positives 1 by decontaminate" in summary(found)


def test_values_that_were_not_planted_lower_the_precision_of_their_kind() -> None:
    """If two addresses are caught and two other values are replaced, the precision is one half."""
    planted = truth()
    found = score(planted, rows(planted), ALL_STEPS, text_of(), {"email": 2, "secret": 0})
    output = summary(found)
    assert "email: recall 1.000, precision 0.500, false positives 2 by scrub" in output
    assert "secret: recall 1.000, precision 1.000, false positives 0 by scrub" in output
    assert "ip_address: recall" not in output


def test_the_demo_ends_with_three_commands_that_fit_80_columns():
    """The last lines of `make demo` say where to look next, and nothing else."""
    recipe = Path("Makefile").read_text().partition("\ndemo:")[2].partition("\n\n")[0]
    printed = [line.replace("$(BIN)", ".venv/bin") for line in re.findall(r'\t@echo "(.*)"', recipe)]
    assert printed[0] == "Try next:"
    assert [line.count("/gristmill ") for line in printed[1:]] == [1, 1, 1]
    assert recipe.endswith(f'{printed[-1].replace(".venv/bin", "$(BIN)")}"')
    assert max(map(len, printed)) <= 80
