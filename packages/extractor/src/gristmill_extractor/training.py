"""Training of our extractor on gold pages.

Blocks are labelled by aligning the words of a page with its gold text; if gold is segments, only blocks that contain
one are labelled. The first model is trained on blocks alone. The second gets the scores of the first as input, which
must be for pages that the first has not seen: for that, the first is also trained without each fifth of the domains.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.kernels.html.bounds import as_words
from gristmill.kernels.html.context import CONTEXT_FEATURES
from gristmill.kernels.html.features import AT_TITLE, FEATURES, LEVEL, SINCE_TITLE
from gristmill.kernels.html.layout import B_KIND
from gristmill.kernels.html.page import COLUMNS
from gristmill.kernels.html.trees import Trees, score
from gristmill.stages.extract.main_text import Blocks, Extractor, ExtractorModel, TooManyBlocks
from gristmill_extractor.align import align
from gristmill_extractor.boosting import BoostingSettings, TrainedTrees, train
from gristmill_extractor.gold import GoldPage
from gristmill_extractor.gold_domains import folds
from gristmill_extractor.gold_scores import words_of

Array = np.ndarray[Any, Any]

FIRST = BoostingSettings(trees=300, depth=6, learning_rate=0.05, l2=3.0, feature_share=0.2, row_share=0.7, seed=1)
SECOND = BoostingSettings(trees=200, depth=6, learning_rate=0.05, l2=3.0, feature_share=0.2, row_share=0.7, seed=2)
INNER_FOLDS = 5
STEPS = INNER_FOLDS + 4
"""Reported steps of a training; fewer if there are fewer domains than folds."""
MAX_CELLS = 400_000_000
"""Words of a page times words of its gold: a larger page is left out."""
PAGE_WEIGHT = 20.0
"""Weight of a page's content; about as much for the rest."""
SEGMENT_WEIGHT = 2.0
"""Weight of a block that contains a segment."""
LEAST_WEIGHT = 0.05
WEAK_SHARE = 0.3
"""Relative weight of pages whose gold is the output of a tool."""
FEWEST_GOLD_WORDS = 60

Report = Callable[[str], None]


class Labelled(NamedTuple):
    """A page's blocks with their labels."""

    html: bytes
    blocks: Blocks
    content: Array
    """bool."""
    comments: Array
    """bool: content or readers' comments."""
    weights: Array
    """0: not labelled."""


class OfSet(NamedTuple):
    """The training data from one set."""

    pages: int
    domains: int
    blocks: int
    """Labelled blocks."""
    content: int
    """Blocks that are content."""


class Learned(NamedTuple):
    """A model, and its training data."""

    model: ExtractorModel
    sets: dict[str, OfSet]
    domains: int
    """Domains over all sets; one may have pages in several."""
    left_out: int
    """Pages that cannot be used: without text, without the text of their gold, or too long to align."""
    gains: dict[str, dict[str, float]]
    """By the fields of ExtractorModel: each feature's share of the total gain, the largest first."""


def labelled(page: GoldPage, extractor: Extractor) -> Labelled | None:
    """The labels of a page; None if it cannot be used, for example if it lacks most of its gold, which is then the text
    of another page, or a note.
    """
    html = page.html.encode()
    try:
        blocks = extractor.blocks(html)
    except TooManyBlocks:
        return None
    if not blocks.texts:
        return None
    if page.text is None:
        return _by_segments(html, blocks, page)
    words = [words_of(text) for text in blocks.texts]
    counts = np.array([len(some) for some in words])
    gold = words_of(page.text)
    content = _covered(words, gold)
    if content is None:
        return None
    if 2 * counts[content].sum() < len(gold):
        return None
    readers = _covered(words, words_of(page.comments)) if page.comments else None
    comments = content if readers is None else content | readers
    weights = np.where(_headlines(blocks, content), 0.0, _weights(counts, len(gold), page.is_weak))
    return Labelled(html, blocks, content, comments, weights)


def _headlines(blocks: Blocks, content: Array) -> Array:
    """Whether each block is a heading with the page's title before the content. The extractor keeps it by rule
    (`keep_headline`), and gold texts differ on it.
    """
    first = int(content.argmax()) if content.any() else 0
    found: Array = (blocks.columns[SINCE_TITLE] == AT_TITLE) & (LEVEL[blocks.table[:, B_KIND]] > 0)
    found[first + 1 :] = False
    return found


def _covered(words: Sequence[Sequence[str]], gold: Sequence[str]) -> Array | None:
    """Whether at least half of each block's words are in the gold text; None if both texts are too long."""
    numbers: dict[str, int] = {}
    counts = np.array([len(some) for some in words])
    ours = np.array([numbers.setdefault(word, len(numbers)) for some in words for word in some], np.int32)
    theirs = np.array([numbers.get(word, -1) for word in gold], np.int32)
    if ours.size * theirs.size > MAX_CELLS:
        return None
    hits = np.concatenate([[0], np.cumsum(align(ours, theirs), dtype=np.int64)])
    ends = np.cumsum(counts)
    covered: Array = (2 * (hits[ends] - hits[ends - counts]) >= counts) & (counts > 0)
    return covered


def _weights(counts: Array, gold_words: int, weak: bool) -> Array:
    """Weights of blocks: half by the number of words, as in the score, and half by its square root."""
    sizes = np.maximum(counts, 1)
    roots = np.sqrt(sizes)
    weights = PAGE_WEIGHT * roots / roots.sum() + PAGE_WEIGHT / 2 * sizes / max(gold_words, FEWEST_GOLD_WORDS)
    found: Array = (weights + LEAST_WEIGHT) * (WEAK_SHARE if weak else 1.0)
    return found


def _by_segments(html: bytes, blocks: Blocks, page: GoldPage) -> Labelled:
    flat = [" ".join(text.split()) for text in blocks.texts]
    wanted, unwanted = (
        np.array([any(" ".join(one.split()) in text for one in some) for text in flat], bool)
        for some in (page.must_have, page.must_not)
    )
    weights = np.where(wanted | unwanted, SEGMENT_WEIGHT, 0.0)
    return Labelled(html, blocks, wanted, wanted, weights)


def train_model(pages: Sequence[GoldPage], report: Report = lambda _: None) -> ExtractorModel:
    """A model trained on pages. The same pages in any order give the same model."""
    return learn(pages, report).model


def learn(pages: Sequence[GoldPage], report: Report = lambda _: None) -> Learned:
    """A model trained on pages, with its training data."""
    extractor = Extractor(_nothing())
    ordered = sorted(pages, key=lambda page: page.record_id)
    fold_count = min(INNER_FOLDS, len({page.domain for page in ordered}))
    report("splitting pages into blocks, and aligning them with their gold")
    found = [labelled(page, extractor) for page in ordered]
    known = [one for one in found if one is not None]
    if fold_count < 2 or not any(one.content.any() for one in known):
        raise UserError(_too_little(ordered, found))
    numbers = [number for number, one in zip(folds(ordered, fold_count), found, strict=True) if one is not None]
    if len(set(numbers)) < 2:
        raise UserError(_too_little(ordered, found))
    columns = [one.blocks.columns for one in known]
    contents = [one.content for one in known]
    scores: list[Array] = [np.empty(0, np.int32)] * len(known)
    for fold in sorted(set(numbers)):
        report(f"the first model without fold {fold + 1} of {fold_count}")
        rest = [at for at, number in enumerate(numbers) if number != fold]
        trees = _trained(rest, columns, contents, known, FIRST).trees
        for at, number in enumerate(numbers):
            if number == fold:
                scores[at] = _scored(trees, columns[at])
    everything = range(len(known))
    report("the first model")
    first = _trained(everything, columns, contents, known, FIRST)
    with_scores = [extractor.second_features(one.html, its) for one, its in zip(known, scores, strict=True)]
    report("the second model")
    second = _trained(everything, with_scores, contents, known, SECOND)
    report("the model that keeps comments")
    with_comments = _trained(everything, with_scores, [one.comments for one in known], known, SECOND)
    trained = (first, second, with_comments)
    used = [page for page, one in zip(ordered, found, strict=True) if one is not None]
    sets, domains = _sets(used, known), len({page.domain for page in used})
    gains = {name: _gains(one) for name, one in zip(ExtractorModel._fields, trained, strict=True)}
    return Learned(ExtractorModel(*(one.trees for one in trained)), sets, domains, len(found) - len(known), gains)


def _too_little(pages: Sequence[GoldPage], found: Sequence[Labelled | None]) -> str:
    aligned = [page for page, one in zip(pages, found, strict=True) if one is not None and one.content.any()]
    domains = counted(len({page.domain for page in aligned}), "domain")
    return (
        f"No model can be trained on {counted(len(pages), 'page')}: pages of at least two domains are needed, with "
        f"text that is in their gold, but only {counted(len(aligned), 'page')} of {domains} had it. Add pages of "
        "other domains; docs/extraction.md has the layout."
    )


def _sets(pages: Sequence[GoldPage], known: Sequence[Labelled]) -> dict[str, OfSet]:
    held: dict[str, list[tuple[GoldPage, Labelled]]] = {}
    for page, one in zip(pages, known, strict=True):
        held.setdefault(page.set, []).append((page, one))
    return {
        name: OfSet(
            len(some),
            len({page.domain for page, _ in some}),
            sum(int((one.weights > 0).sum()) for _, one in some),
            sum(int((one.content & (one.weights > 0)).sum()) for _, one in some),
        )
        for name, some in sorted(held.items())
    }


def _gains(trained: TrainedTrees) -> dict[str, float]:
    names = [*FEATURES, *CONTEXT_FEATURES][: trained.trees.columns]
    sums = np.bincount(trained.trees.features.ravel(), trained.gains.ravel(), len(names))
    order = sorted(range(len(names)), key=lambda at: (-sums[at], at))
    return {names[at]: float(sums[at] / max(sums.sum(), 1e-9)) for at in order}


def _trained(
    chosen: Sequence[int],
    columns: Sequence[Array],
    labels: Sequence[Array],
    pages: Sequence[Labelled],
    settings: BoostingSettings,
) -> TrainedTrees:
    weights = np.concatenate([pages[at].weights for at in chosen])
    some = weights > 0
    groups = np.concatenate([np.full(len(labels[at]), at) for at in chosen])[some]
    wanted = np.concatenate([labels[at] for at in chosen])[some].astype(np.uint8)
    table = np.ascontiguousarray(np.concatenate([columns[at] for at in chosen], axis=1)[:, some])
    return train(table, wanted, weights[some], settings, groups, threads=os.cpu_count() or 1)


def _scored(trees: Trees, columns: Array) -> Array:
    scores = np.empty(columns.shape[1], np.int32)
    score(trees, np.ascontiguousarray(columns), scores)
    return scores


def _nothing() -> ExtractorModel:
    """An empty model, to split pages into blocks."""

    def empty(columns: int) -> Trees:
        return Trees(np.zeros((1, 1), np.uint16), np.zeros((1, 1), np.uint8), np.zeros((1, 2), np.int16), 0, columns)

    return ExtractorModel(empty(len(FEATURES)), empty(COLUMNS), empty(COLUMNS))


def texts_of(model: ExtractorModel, pages: Sequence[GoldPage]) -> list[str]:
    """The main texts of some pages."""
    extractor = Extractor(model)
    found = []
    for page in pages:
        data, words = as_words(np.frombuffer(page.html.encode(), np.uint8))
        try:
            found.append(extractor.text(data, words, 0, data.size).decode())
        except TooManyBlocks:
            found.append("")
    return found
