"""gristmill extractor evaluate: a table for people, JSON for programs, one message for mistakes."""

import json

import pytest

from gold_pages import write_gold, write_rows
from gristmill_extractor.extractors import TRIMMED


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("gold")
    write_gold(made)
    return made


def test_tables_show_sets_languages_means_and_speed(say, folder):
    """Weak gold is shown, and said to stand outside."""
    done = say("extractor", "evaluate", folder, "--tools", "resiliparse")
    assert done.code == 0, done.err
    rows = [line.split() for line in done.out.splitlines()]
    shown = {row[0] for row in rows if TRIMMED.split()[0] in " ".join(row) and len(row) > 5}
    assert {"news", "blogs", "tool-weakgold", "marked", "mean"} <= shown
    (marked,) = [row for row in rows if row[:1] == ["marked"] and "trimmed" in row]
    assert marked[-4:-1] == ["3", "-", "-"]
    (over_pages,) = [row for row in rows if row[:3] == ["mean", "over", "pages"] and "trimmed" in row]
    assert over_pages[5] == "9"  # of 12, without the three with weak gold
    assert "B/s" in done.out
    assert "not in the means and languages, because their gold is the output of a tool: tool-weakgold" in done.out
    assert "12 pages of 12 domains (12 by their URL)" in done.out


def test_a_score_that_is_not_fair_is_said_to_be_none(say, folder, tmp_path):
    """Of our own tool without folds; and pages that have no word of their gold are counted."""
    out = say("extractor", "evaluate", folder, "--tools", "gristmill").out
    (line,) = [one for one in out.splitlines() if "fair" in one]
    assert "gristmill: the built-in model was trained on similar gold" in line
    assert "--folds" in line
    rows = write_gold(tmp_path)
    write_rows(tmp_path, [{**rows[0], "text": "Ganz andere Worte"}, *rows[1:]])
    done = say("extractor", "evaluate", tmp_path, "--tools", "resiliparse")
    assert "warning: 1 page has no word of its gold" in done.out
    assert "fair" not in done.out
    done = say("extractor", "evaluate", tmp_path, "--tools", "gristmill", "--folds", "2", "--limit", "1")
    assert done.code == 2
    assert "1 page is of 1 domain and cannot be split into 2 non-empty folds" in done.err
    assert "Give pages of more domains." in done.err


def test_a_program_gets_the_same_numbers(say, folder):
    """One object."""
    done = say("extractor", "evaluate", folder, "--tools", "resiliparse", "--limit", 7, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["pages"] == found["domains"] == found["domains_from"]["url"] == 7
    assert found["outside_the_means"] == ["tool-weakgold"]
    ours = found["tools"][TRIMMED]
    assert sum(one["pages"] for one in ours["sets"].values()) == 7
    assert ours["sets"]["marked"]["precision"] is None
    assert ours["bytes_per_second"] > 0
    assert 0 < ours["mean_over_pages"]["value"] <= 1


def test_mistakes_are_one_message(say, folder, tmp_path):
    """With the exit code of a user's mistake."""
    for line, result in (
        ((tmp_path / "none",), "is not a folder"),
        ((tmp_path,), "has no gold file"),
        ((folder, "--tools", "resiliprase"), "Did you mean resiliparse?"),
        ((folder, "--tools", " ,"), "--tools is empty"),
        ((folder, "--tools", "resiliparse", "--folds", "3"), "--folds 3 only applies to trainable tools"),
        ((folder, "--folds", "1"), "--folds must be at least 2"),
        ((folder, "--limit", "0"), "--limit must be at least 1"),
    ):
        done = say("extractor", "evaluate", *line)
        assert (done.code, done.out) == (2, ""), line
        assert result in done.err
        assert "Traceback" not in done.err
