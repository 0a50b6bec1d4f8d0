"""Extractors are scored through the step, and a trained one only on domains that its model was not trained on."""

import importlib.util

import pytest

from gold_pages import page, text_of, write_archive, write_gold, write_rows
from gristmill.errors import UserError
from gristmill.install_command import install_extra
from gristmill_extractor import extractors
from gristmill_extractor.extractors import IN_STEP, TrainableTool, chosen_tools, evaluate
from gristmill_extractor.gold import read_gold
from gristmill_extractor.gold_scores import Score


class Silent:
    def __init__(self):
        self.promised, self.walked = {}, {}

    def promise(self, name, total):
        self.promised[name] = total

    def walk(self, name, items):
        for item in items:
            yield item
            self.walked[name] = self.walked.get(name, 0) + 1


@pytest.fixture(scope="module")
def gold(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gold")
    write_gold(folder)
    return read_gold(folder)


def test_the_bare_library_and_the_step_are_two_tools(gold, monkeypatch):
    """Each page has its score at its position; progress covers the announced pages."""
    monkeypatch.setattr(extractors, "BATCH_PAGES", 5)
    progress = Silent()
    bare, in_step = evaluate(gold, ["resiliparse"], None, progress)
    assert (bare.tool, in_step.tool) == ("resiliparse", IN_STEP)
    assert progress.promised == progress.walked == {"resiliparse": 3, IN_STEP: 3}
    assert [score.precision is None for score in in_step.scores] == [one.text is None for one in gold]
    assert all(score.value > 0.9 for score in in_step.scores)
    assert in_step.html_bytes == sum(len(one.html) for one in gold)
    assert bare.seconds > 0


def test_means_leave_out_weak_gold(gold):
    """Weak pages and weak sets do not count; in the mean over sets, a large set counts as much as a small one."""
    values = {"news": 1.0, "blogs": 0.5, "marked": 0.0, "tool-weakgold": 0.25}
    some = [one for one in gold if one.set != "marked"] + [one for one in gold if one.set == "marked"][:1]
    result = extractors.ToolResult("x", some, [Score(values[one.set]) for one in some], 1, 1.0)
    assert result.mean_over_pages().value == pytest.approx((3 * 1.0 + 3 * 0.5 + 0.0) / 7)
    assert result.mean_over_sets().value == pytest.approx(0.5)
    assert {name: len(scores) for name, scores in result.sets().items()} == {
        "blogs": 3,
        "marked": 1,
        "news": 3,
        "tool-weakgold": 3,
    }
    assert sum(map(len, result.languages().values())) == 7
    only_weak = extractors.ToolResult("x", [one for one in some if one.is_weak], [Score(1.0)] * 3, 1, 1.0)
    assert only_weak.mean_over_pages() is only_weak.mean_over_sets() is None


def test_a_model_never_sees_the_domains_that_it_is_scored_on(gold, monkeypatch):
    """Every page is scored once, by the model of all other folds."""
    trained = []

    def train(pages):
        trained.append({one.domain for one in pages})
        return trained[-1]

    def texts(model, pages):
        return ["seen" if one.domain in model else one.text or " ".join(one.must_have) for one in pages]

    monkeypatch.setitem(extractors.TRAINED, "learned", TrainableTool(train, texts))
    (result,) = evaluate(gold, ["learned"], 4, Silent())
    assert len(trained) == 4
    assert {score.value for score in result.scores} == {1.0}
    domains = {one.domain for one in gold}
    assert sum(len(domains - known) for known in trained) == len(domains)


def test_folds_are_rejected_if_nothing_is_trained(gold, monkeypatch):
    """They would silently do nothing."""
    with pytest.raises(UserError, match="--folds 3 only applies to trainable tools, and resiliparse has none"):
        evaluate(gold, ["resiliparse"], 3, Silent())
    monkeypatch.setitem(extractors.TRAINED, "learned", TrainableTool(None, None))
    with pytest.raises(UserError, match="Add gristmill or learned to --tools, or leave --folds out"):
        evaluate(gold, ["resiliparse"], 3, Silent())
    with pytest.raises(UserError, match="12 domains and cannot be split into 13 non-empty folds"):
        evaluate(gold, ["learned"], 13, Silent())


def test_the_bare_library_never_gets_a_page_that_the_step_rejects(tmp_path, monkeypatch):
    """It would take minutes."""
    deep = page(text_of(0), around="<div>" * 6000)
    (tmp_path / "gold").mkdir()
    ids = write_archive(tmp_path / "p.warc.gz", {"https://deep.example/": deep, "https://flat.example/": page("flat")})
    rows = [{"warc_record_id": one, "set": url[8:12], "text": "flat"} for url, one in ids.items()]
    write_rows(tmp_path, rows)
    parsed = []
    library = extractors.extract_plain_text
    monkeypatch.setattr(
        extractors, "extract_plain_text", lambda tree, **options: parsed.append(tree) or library(tree, **options)
    )
    (bare, _) = evaluate(read_gold(tmp_path), ["resiliparse"], None, Silent())
    scores = {name: [score.value for score in scores] for name, scores in bare.sets().items()}
    assert scores["deep"] == [0.0]
    assert scores["flat"][0] > 0
    assert 1 <= len(parsed) <= 2  # the first page again, to warm up


def test_a_missing_tool_is_skipped_or_rejected(monkeypatch):
    """By default it is skipped with a line that names the extra; if it was requested, it is an error."""
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, find=importlib.util.find_spec: name != "trafilatura" and find(name)
    )
    assert chosen_tools(["resiliparse", "resiliparse"]) == (["resiliparse"], [])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    names, notes = chosen_tools(None)
    assert "trafilatura" not in names
    assert notes == [f"trafilatura is skipped: it is not installed ({install_extra('trafilatura')})"]
    with pytest.raises(UserError, match=r"trafilatura is not installed.*pip install .*\[trafilatura\]"):
        chosen_tools(["trafilatura"])
    with pytest.raises(UserError, match=r"resiliparsed is not a tool.*Did you mean resiliparse"):
        chosen_tools(["resiliparsed"])
