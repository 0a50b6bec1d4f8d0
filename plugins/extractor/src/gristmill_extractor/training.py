"""Training of our extractor on gold pages.

Blocks are labelled by aligning the words of a page with its gold text; where gold is segments, blocks that hold one are
labelled, and the others are left out. The first model is trained on blocks alone. The second is told what the first
thinks, and must be told it of pages that the first has not seen: for that, and for nothing else, the first is trained
again for each fifth of the domains without it.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.kernels.html.bounds import as_words
from gristmill.kernels.html.context import CONTEXT_FEATURES
from gristmill.kernels.html.features import FEATURES
from gristmill.kernels.html.page import COLUMNS
from gristmill.kernels.html.trees import Trees, score
from gristmill.stages.extract.main_text import Blocks, Extractor, ExtractorModel, TooManyBlocks
from gristmill_extractor.align import align
from gristmill_extractor.boosting import Settings, Trained, train
from gristmill_extractor.gold import Page
from gristmill_extractor.gold_domains import folds
from gristmill_extractor.gold_scores import words_of

Array = np.ndarray[Any, Any]

FIRST = Settings(trees=300, depth=6, learning_rate=0.05, l2=3.0, feature_share=0.2, row_share=0.7, seed=1)
SECOND = Settings(trees=200, depth=6, learning_rate=0.05, l2=3.0, feature_share=0.2, row_share=0.7, seed=2)
INNER_FOLDS = 5
STEPS = INNER_FOLDS + 4
"""Of a training that are told; with fewer domains than folds there are fewer."""
MAX_CELLS = 400_000_000
"""Words of a page times words of its gold: a larger page is left out."""
PAGE_WEIGHT = 20.0
"""Of a page's content, and about as much for what is not content."""
SEGMENT_WEIGHT = 2.0
"""Of a block that holds a segment."""
LEAST_WEIGHT = 0.05
WEAK_SHARE = 0.3
"""What pages count whose gold is the answer of a tool."""
FEWEST_GOLD_WORDS = 60

Told = Callable[[str], None]


class Labelled(NamedTuple):
    """A page's blocks with what they should be."""

    html: bytes
    blocks: Blocks
    content: Array
    """bool."""
    comments: Array
    """bool: content, or what readers wrote."""
    weights: Array
    """0: nobody has said."""


class OfSet(NamedTuple):
    """What a model was trained on, of one set."""

    pages: int
    domains: int
    blocks: int
    """Of which somebody has said what they are."""
    content: int
    """Blocks that are."""


class Learned(NamedTuple):
    """A model, and what it was made of."""

    model: ExtractorModel
    sets: dict[str, OfSet]
    domains: int
    """Of all sets: one may have pages in several."""
    left_out: int
    """Pages of which nothing can be learned: without text, or too long to be aligned."""
    gains: dict[str, dict[str, float]]
    """By the fields of ExtractorModel: the share of all gain that each feature has, those with most first."""


def labelled(page: Page, extractor: Extractor) -> Labelled | None:
    """The labels of a page; None for one of which nothing can be learned."""
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
    readers = _covered(words, words_of(page.comments)) if page.comments else None
    comments = content if readers is None else content | readers
    return Labelled(html, blocks, content, comments, _weights(counts, len(gold), page.is_weak))


def _covered(words: Sequence[Sequence[str]], gold: Sequence[str]) -> Array | None:
    """The blocks at least half of whose words stand in the gold text; None where both are too long."""
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
    """A block counts half by its words, for the score, and half by their root, for its own sake."""
    sizes = np.maximum(counts, 1)
    roots = np.sqrt(sizes)
    weights = PAGE_WEIGHT * roots / roots.sum() + PAGE_WEIGHT / 2 * sizes / max(gold_words, FEWEST_GOLD_WORDS)
    found: Array = (weights + LEAST_WEIGHT) * (WEAK_SHARE if weak else 1.0)
    return found


def _by_segments(html: bytes, blocks: Blocks, page: Page) -> Labelled:
    flat = [" ".join(text.split()) for text in blocks.texts]
    wanted, unwanted = (
        np.array([any(" ".join(one.split()) in text for one in some) for text in flat], bool)
        for some in (page.must_have, page.must_not)
    )
    weights = np.where(wanted | unwanted, SEGMENT_WEIGHT, 0.0)
    return Labelled(html, blocks, wanted, wanted, weights)


def train_model(pages: Sequence[Page], tell: Told = lambda _: None) -> ExtractorModel:
    """A model of some pages, the same for the same pages in any order."""
    return learn(pages, tell).model


def learn(pages: Sequence[Page], tell: Told = lambda _: None) -> Learned:
    """The same with what it was made of."""
    extractor = Extractor(_nothing())
    ordered = sorted(pages, key=lambda page: page.record_id)
    fold_count = min(INNER_FOLDS, len({page.domain for page in ordered}))
    tell("cutting pages into blocks, and aligning them with their gold")
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
        tell(f"the first model without fold {fold + 1} of {fold_count}")
        rest = [at for at, number in enumerate(numbers) if number != fold]
        trees = _trained(rest, columns, contents, known, FIRST).trees
        for at, number in enumerate(numbers):
            if number == fold:
                scores[at] = _scored(trees, columns[at])
    everything = range(len(known))
    tell("the first model")
    first = _trained(everything, columns, contents, known, FIRST)
    told = [extractor.second_features(one.html, its) for one, its in zip(known, scores, strict=True)]
    tell("the second model")
    second = _trained(everything, told, contents, known, SECOND)
    tell("the model that keeps comments")
    with_comments = _trained(everything, told, [one.comments for one in known], known, SECOND)
    made = (first, second, with_comments)
    used = [page for page, one in zip(ordered, found, strict=True) if one is not None]
    sets, domains = _sets(used, known), len({page.domain for page in used})
    gains = {name: _gains(one) for name, one in zip(ExtractorModel._fields, made, strict=True)}
    return Learned(ExtractorModel(*(one.trees for one in made)), sets, domains, len(found) - len(known), gains)


def _too_little(pages: Sequence[Page], found: Sequence[Labelled | None]) -> str:
    aligned = [page for page, one in zip(pages, found, strict=True) if one is not None and one.content.any()]
    domains = counted(len({page.domain for page in aligned}), "domain")
    return (
        f"Of {counted(len(pages), 'page')} no model can be trained: pages of two domains at the least are needed, with "
        f"text that is in their gold, and {counted(len(aligned), 'page')} of {domains} had such text. Add pages of "
        "other domains; docs/extraction.md has the layout."
    )


def _sets(pages: Sequence[Page], known: Sequence[Labelled]) -> dict[str, OfSet]:
    held: dict[str, list[tuple[Page, Labelled]]] = {}
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


def _gains(trained: Trained) -> dict[str, float]:
    names = [*FEATURES, *CONTEXT_FEATURES][: trained.trees.columns]
    sums = np.bincount(trained.trees.features.ravel(), trained.gains.ravel(), len(names))
    order = sorted(range(len(names)), key=lambda at: (-sums[at], at))
    return {names[at]: float(sums[at] / max(sums.sum(), 1e-9)) for at in order}


def _trained(
    chosen: Sequence[int],
    columns: Sequence[Array],
    labels: Sequence[Array],
    pages: Sequence[Labelled],
    settings: Settings,
) -> Trained:
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
    """A model that says nothing, to cut pages with."""

    def empty(columns: int) -> Trees:
        return Trees(np.zeros((1, 1), np.uint16), np.zeros((1, 1), np.uint8), np.zeros((1, 2), np.int16), 0, columns)

    return ExtractorModel(empty(len(FEATURES)), empty(COLUMNS), empty(COLUMNS))


def texts_of(model: ExtractorModel, pages: Sequence[Page]) -> list[str]:
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
