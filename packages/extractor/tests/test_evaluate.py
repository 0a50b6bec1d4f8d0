"""gristmill extractor evaluate: a table for people, JSON for programs, one message for each mistake."""

import json

import pytest

from gold_pages import write_gold, write_rows
from gristmill_extractor.extractors import IN_STEP


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    gold = tmp_path_factory.mktemp("gold")
    write_gold(gold)
    return gold


def test_tables_show_sets_languages_means_and_speed(say, folder):
    """Weak gold is shown and marked as not in the means."""
    done = say("extractor", "evaluate", folder, "--tools", "resiliparse")
    assert done.code == 0, done.err
    rows = [line.split() for line in done.out.splitlines()]
    shown = {row[0] for row in rows if IN_STEP.split()[0] in " ".join(row) and len(row) > 5}
    assert {"news", "blogs", "tool-weakgold", "marked", "mean"} <= shown
    (marked,) = [row for row in rows if row[:1] == ["marked"] and "step" in row]
    assert marked[-4:-1] == ["3", "-", "-"]
    (over_pages,) = [row for row in rows if row[:3] == ["mean", "over", "pages"] and "step" in row]
    assert over_pages[5] == "9"  # of 12, without the three with weak gold
    assert "B/s" in done.out
    assert "not in the means and languages, because their gold is the output of a tool: tool-weakgold" in done.out
    assert "12 pages of 12 domains (12 by their URL)" in done.out


def test_an_unfair_score_is_marked(say, folder, tmp_path):
    """Our own tool without folds is not fair; pages that share no word with their gold are counted."""
    out = say("extractor", "evaluate", folder, "--tools", "gristmill").out
    (line,) = [text for text in out.splitlines() if "fair" in text]
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


def test_json_has_the_same_numbers(say, folder):
    """The output is one object."""
    done = say("extractor", "evaluate", folder, "--tools", "resiliparse", "--limit", 7, "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["pages"] == result["domains"] == result["domains_from"]["url"] == 7
    assert result["outside_the_means"] == ["tool-weakgold"]
    scores = result["tools"][IN_STEP]
    assert sum(entry["pages"] for entry in scores["sets"].values()) == 7
    assert scores["sets"]["marked"]["precision"] is None
    assert scores["bytes_per_second"] > 0
    assert 0 < scores["mean_over_pages"]["value"] <= 1


def test_mistakes_are_one_message(say, folder, tmp_path):
    """The exit code is 2."""
    for arguments, message in (
        ((tmp_path / "none",), "is not a folder"),
        ((tmp_path,), "has no gold file"),
        ((folder, "--tools", "resiliprase"), "Did you mean resiliparse?"),
        ((folder, "--tools", " ,"), "--tools is empty"),
        ((folder, "--tools", "resiliparse", "--folds", "3"), "--folds 3 only applies to trainable tools"),
        ((folder, "--folds", "1"), "'--folds': Input should be greater than or equal to 2"),
        ((folder, "--limit", "0"), "'--limit': Input should be greater than or equal to 1"),
    ):
        done = say("extractor", "evaluate", *arguments)
        assert (done.code, done.out) == (2, ""), arguments
        assert message in done.err
        assert "Traceback" not in done.err
