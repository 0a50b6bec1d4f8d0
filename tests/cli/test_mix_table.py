"""The table of a mixture: every number follows from the manifest."""

import io

import pytest
from rich.console import Console

from gristmill.cli.run.mix_table import mix_table, short
from stages.mix.mixing import catalogue, mixed

SIZES = {"crawl/A": (6400, 2), "crawl/B": (64_000, 4), "wiki/A": (3200, 1), "zine/C": (640, 1)}
MIXTURE = {
    "sources": {"crawl": "web", "wiki": "reference", "zine": "reference"},
    "domains": {"web": 0.8, "reference": 0.2},
    "tiers": {"A": 4, "B": 1, "C": 0},
    "tokens": 12_800,
    "phases": [{"name": "main", "share": 0.75}, {"name": "cooldown", "share": 0.25, "tiers": {"A": 1, "B": 0, "C": 0}}],
}


def render(folder, width=80, **changed):
    written, _, _ = mixed(folder, catalogue(SIZES), **{**MIXTURE, **changed})
    out = io.StringIO()
    Console(file=out, width=width).print(mix_table(written))
    return out.getvalue()


def test_rows_have_tokens_epochs_and_shares(tmp_path):
    """Groups, domains and phases are in manifest order, with target and realised share side by side."""
    rows = [line.split() for line in render(tmp_path).splitlines()]
    assert ["main", "73.6k", "9.60k", "0.13"] in rows
    assert ["web", "70.4k", "7.68k", "0.11", "80.00%", "80.00%"] in rows
    # 7680 tokens of web: 4 * 6400 to 64000.
    assert ["crawl/A", "6.40k", "2.18k", "0.34", "0.74", "22.67%", "22.86%"] in rows
    assert ["crawl/B", "64.0k", "5.50k", "0.09", "0.09", "57.33%", "57.14%"] in rows
    assert ["crawl/A", "6.40k", "2.56k", "0.40", "0.74", "80.00%", "80.00%"] in rows
    assert [row[0] for row in rows if row and row[0] in ("main", "cooldown")] == ["main", "cooldown"]
    assert ["Not", "drawn:", "zine/C", "(640)"] in rows


def test_the_table_fits_80_columns_and_is_the_same_in_160(tmp_path):
    """No number is cut or broken."""
    narrow, wide = render(tmp_path, 80), render(tmp_path, 160)
    assert max(map(len, narrow.splitlines())) <= 80
    assert [line.split() for line in narrow.splitlines()] == [line.split() for line in wide.splitlines()]


def test_a_long_name_is_folded_but_numbers_are_not(tmp_path):
    """Names are shortened first."""
    sizes = {"a" * 100: (6400, 1)}
    written, _, _ = mixed(tmp_path, catalogue(sizes))
    out = io.StringIO()
    Console(file=out, width=80).print(mix_table(written))
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert "100.00%" in out.getvalue()


def test_a_group_over_its_cap_is_marked(tmp_path):
    """The mark is plain text, so that a log shows it; without marks there is no legend."""
    marked = render(tmp_path, max_epochs=0.1)
    assert "!" in next(line for line in marked.splitlines() if "crawl/A" in line)
    assert "!: more epochs than max_epochs allows" in marked
    assert "!" not in render(tmp_path)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.00k"),
        (9_994, "9.99k"),
        (9_996, "10.0k"),
        (99_960, "100k"),
        (999_499, "999k"),
        (999_500, "1.00M"),
        (15_600_000_000_000, "15.6T"),
        (999.9e12, "1,000T"),
        (2e15, "2,000T"),
    ],
)
def test_counts_are_shown_with_three_digits(count, text):
    """1000k is never shown."""
    assert short(count) == text
