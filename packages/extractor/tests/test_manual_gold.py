"""The gold text of manuals is what their markup says; a package is in one part only."""

from bench._manual_gold import gold_of, manuals

PROSE = "The functions of this group handle the locks of other threads, and programs wait for them in this way only."


def test_cells_are_words_apart_and_custom_footers_are_left_out() -> None:
    page = (
        '<body>Home page<div class="header"><div class="title">Locks</div></div><div class="contents"><table><tr><td>'
        f"obj</td><td>pointer to a lock</td></tr></table><p>{PROSE}</p></div><!-- contents -->Imprint</body>"
    )
    assert (gold_of(page, "doxygen") or "").split() == ["Locks", "obj", "pointer", "to", "a", "lock", *PROSE.split()]


def test_the_version_of_an_item_is_text_and_the_link_to_its_source_is_not() -> None:
    page = (
        '<main><section id="main-content"><h1>Lock</h1><div class="rightside"><span class="since">1.57.0</span><a '
        f'class="srclink" href="s">source</a></div><p>{PROSE}</p></section></main>'
    )
    assert (gold_of(page, "rustdoc") or "").split() == ["Lock", "1.57.0", *PROSE.split()]


def test_no_package_is_in_both_parts() -> None:
    train, held = ({one.package for one in manuals(part)} for part in ("train", "held"))
    assert (len(train), len(held), train & held) == (52, 41, set())
