"""What the score promises: it counts what was caught by the step that should, and what good pages it cost."""

import re
from collections.abc import Iterator
from pathlib import Path

from demo.score import DECONTAMINATE, Line, Row, Score, TextOf, Texts, score, summary, table
from demo.truth import KINDS, Plant, Sign, Truth

ALL_STEPS = {step for kind in KINDS.values() for step in kind.steps}


def truth() -> Truth:
    """Two plants of every kind and three good pages, two of them originals of copies."""
    made = Truth(seed=0, scale=1)
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
            made.plants[name].append(plant)
    made.good = [(f"https://site.example/good/{n}", "s1") for n in range(3)]
    return made


def rows(made: Truth, missed: str = "") -> Iterator[Row]:
    """The rows of a run that catches everything, but not the first plant of kind `missed`."""
    for url, snapshot in made.good:
        yield Row("web", url, "a.warc.gz#1", snapshot, None, None)
    for name, kind in KINDS.items():
        for number, plant in enumerate(made.plants[name]):
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


def run(made: Truth, missed: str = "") -> Score:
    return score(made, rows(made, missed), ALL_STEPS, text_of(missed))


def test_a_run_that_catches_everything_misses_nothing() -> None:
    """Every kind is counted in full, and every good page is kept."""
    found = run(truth())
    assert {line.kind: (line.caught, line.missed) for line in found.lines} == dict.fromkeys(KINDS, (2, 0))
    assert (found.good.total, found.good.lost) == (3, 0)


def test_one_defect_missed_lowers_its_line_and_no_other() -> None:
    """For each kind: leave one plant in the corpus, and that line alone loses one."""
    for missed in KINDS:
        found = run(truth(), missed)
        assert {line.kind: line.missed for line in found.lines} == {kind: int(kind == missed) for kind in KINDS}


def test_a_row_that_vanished_is_a_miss() -> None:
    """A bad record without a row is not caught, and a good page without a row is lost."""
    made = truth()
    found = score(made, [], ALL_STEPS, text_of())
    assert all(line.caught == 0 and line.missed == 2 for line in found.lines)
    assert (found.good.lost, found.good.by) == (3, {"no row": 3})


def test_request_records_speak_for_no_page() -> None:
    """The row of a request has the URL of a page; its verdict catches nothing and loses nothing."""
    made = truth()
    page = made.plants["http_404"][0]
    extra = [Row("web", url, "a.warc.gz#0", "s1", "ingest", "request_record") for url in (page.url, made.good[0][0])]
    found = score(made, [*extra, *rows(made, "http_404")], ALL_STEPS)
    assert line_of(found, "http_404").missed == 1
    assert found.good.lost == 0


def test_a_step_that_is_not_in_the_recipe_misses_nothing() -> None:
    """Kinds without their step are shown as such and never as misses."""
    made = truth()
    kept = [Row("web", url, "a#0", "s1", None, None) for url, _ in made.good]
    found = score(made, kept, {"ingest", "extract"})
    line = line_of(found, "near_copy")
    assert (line.present, line.missed, line.expected_by) == (False, 0, "near_dedup")
    shown = {row.split()[0]: row for row in table(found).splitlines()}
    assert "no such step in this recipe" in shown["near_copy"]
    assert "no such step in this recipe" not in shown["http_404"]


def test_kinds_that_only_the_text_can_tell_are_not_judged_without_it() -> None:
    """Without texts the line says that it was not measured; it is neither caught nor missed."""
    line = line_of(score(truth(), [], ALL_STEPS), "email")
    assert (line.measured, line.caught, line.missed) == (False, 0, 0)
    assert "not measured" in table(score(truth(), [], ALL_STEPS))


def test_the_wrong_step_or_reason_is_not_a_catch() -> None:
    """A page that another step dropped is out of the corpus, but the step that answers for it gets no credit."""
    made = truth()
    url = made.plants["foreign_language"][0].url
    found = score(made, [Row("web", url, "a#0", "s1", "heuristics", "too_short")], ALL_STEPS)
    line = line_of(found, "foreign_language")
    assert (line.caught, line.elsewhere, line.missed) == (0, 1, 1)
    cut = score(made, [Row("web", None, "x/truncated_gzip.bin#7", "s1", "ingest", "http_status")] * 2, ALL_STEPS)
    assert line_of(cut, "truncated_gzip").caught == 0


def test_more_bad_rows_than_plants_in_a_file_count_once_each() -> None:
    """A file with three broken rows and two plants has two catches, whatever URL the rows know."""
    made = truth()
    bad = [Row("web", None, f"s1/truncated_gzip.bin#{n}", "s1", "ingest", "corrupt_gzip") for n in range(3)]
    assert line_of(score(made, bad, ALL_STEPS), "truncated_gzip").caught == 2


def test_either_of_a_pair_may_be_kept() -> None:
    """A copy is caught, and its original is not lost, when the original was dropped in favour of the copy."""
    made = truth()
    copy, original = made.plants["exact_copy"][0], made.good[0][0]
    verdicts = [
        Row("web", copy.url, "a#0", "s1", None, None),
        Row("web", original, "a#1", "s1", "exact_dedup", "same_text"),
        *(Row("web", url, "a#2", "s1", None, None) for url, _ in made.good[1:]),
    ]
    found = score(made, verdicts, ALL_STEPS)
    assert line_of(found, "exact_copy").caught == 1
    assert found.good.lost == 0


def test_a_copy_whose_original_another_step_dropped_is_not_missed() -> None:
    """url_dedup keeps another snapshot of the original, so that the copy is the only one of its text."""
    made = truth()
    copy, original = made.plants["exact_copy"][0], made.good[0][0]
    made.plants["exact_copy"] = [copy]
    verdicts = [
        Row("web", copy.url, "a#0", "s1", None, None),
        Row("web", original, "a#1", "s1", "url_dedup", "duplicate_url"),
    ]
    line = line_of(score(made, verdicts, ALL_STEPS), "exact_copy")
    assert (line.caught, line.elsewhere, line.missed) == (0, 1, 0)


def test_a_good_page_is_lost_when_no_copy_of_it_lives() -> None:
    """Deduplication that drops every copy, and a filter that drops a good page, are told by step and reason."""
    made = truth()
    verdicts = [
        Row("web", made.good[0][0], "a#0", "s1", "near_dedup", "near_duplicate"),
        Row("web", made.good[1][0], "a#1", "s1", "heuristics", "too_short"),
        Row("web", made.good[2][0], "a#2", "s1", None, None),
    ]
    found = score(made, verdicts, ALL_STEPS)
    assert found.good.lost == 2
    assert found.good.by == {"near_dedup: near_duplicate": 1, "heuristics: too_short": 1}
    assert summary(found).endswith("lost: 2 (heuristics: too_short 1, near_dedup: near_duplicate 1)")


def test_another_snapshot_of_a_page_stands_for_it() -> None:
    """A page whose older snapshot was dropped as a duplicate of the newer one is not lost."""
    made = truth()
    url = made.good[0][0]
    made.good = [(url, "s1"), (url, "s2")]
    pair = [Row("web", url, "a#0", "s1", "exact_dedup", "same_url"), Row("web", url, "b#0", "s2", None, None)]
    assert score(made, pair, ALL_STEPS).good.lost == 0


def test_what_was_not_extracted_is_caught_by_nobody() -> None:
    """A string that no later step saw is gone, but is no catch of the step that would have taken it out."""
    made = truth()
    unseen = score(made, rows(made), ALL_STEPS, lambda url, snapshot: Texts("before after", "before after"))
    for kind in ("boilerplate_line", "eval_short", "email"):
        line = line_of(unseen, kind)
        assert (line.caught, line.elsewhere, line.missed) == (0, 2, 0)


def test_a_document_without_an_item_that_is_dropped_as_one_is_a_false_positive() -> None:
    """It lowers the precision of all eval items together, as nobody can say for which kind it was dropped."""
    made = truth()
    url, snapshot = made.good[2]
    verdicts = [row for row in rows(made) if row.url != url]
    for kind in ("eval_whole", "eval_short"):
        verdicts = [
            row._replace(stage=DECONTAMINATE, reason="eval_item") if kind in str(row.url) else row for row in verdicts
        ]
    right = score(made, verdicts, ALL_STEPS, text_of())
    assert (right.evals.planted, right.evals.caught, right.evals.false_positives) == (8, 8, 0)
    wrong = Row("web", url, "a.warc.gz#9", snapshot, DECONTAMINATE, "eval_item")
    found = score(made, [*verdicts, wrong], ALL_STEPS, text_of())
    assert (found.evals.caught, found.evals.false_positives, found.evals.recall) == (8, 1, 1.0)
    assert f"eval items: recall 1.000, precision {8 / 9:.3f}, false positives 1 by decontaminate" in summary(found)


def test_values_that_nobody_planted_lower_the_precision_of_their_kind() -> None:
    """Two addresses caught and two more replaced: half of what went was one."""
    made = truth()
    found = score(made, rows(made), ALL_STEPS, text_of(), {"email": 2, "secret": 0})
    shown = summary(found)
    assert "email: recall 1.000, precision 0.500, false positives 2 by scrub" in shown
    assert "secret: recall 1.000, precision 1.000, false positives 0 by scrub" in shown
    assert "ip_address: recall" not in shown


def test_the_demo_ends_with_three_commands_that_fit_80_columns():
    """What `make demo` prints last: where to look next, and nothing else."""
    recipe = Path("Makefile").read_text().partition("\ndemo:")[2].partition("\n\n")[0]
    printed = [line.replace("$(BIN)", ".venv/bin") for line in re.findall(r'\t@echo "(.*)"', recipe)]
    assert printed[0] == "Try next:"
    assert [line.count("/gristmill ") for line in printed[1:]] == [1, 1, 1]
    assert recipe.endswith(f'{printed[-1].replace(".venv/bin", "$(BIN)")}"')
    assert max(map(len, printed)) <= 80
