"""Kernels take any bytes, also such as are no text, and any cut of them into rows, without harm.

Harm shows where memory is watched: `test_memory` runs this with bounds checked and with fences around arrays.
"""

from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.kernels.bpe.pretoken_classes import class_table
from gristmill.kernels.bpe.pretoken_counts import count_pretokens
from gristmill.kernels.bpe.pretokenize import CL100K
from gristmill.kernels.decontaminate.match import TEXT_FROM, TEXT_TO
from gristmill.kernels.decontaminate.texts import Support, match_texts, word_spans, words_of
from gristmill.kernels.dedup.exact_hash import NONE, WHITESPACE, WORDS, hash_texts
from gristmill.kernels.dedup.keepers import keepers
from gristmill.kernels.dedup.line_units import count_units, find_units
from gristmill.kernels.dedup.repeated_spans import repeated_spans
from gristmill.kernels.dedup.shingles import word_tables
from gristmill.kernels.dedup.sketch import band_hashes_of, shingle_sets
from gristmill.kernels.hash.hashset import hash_strings
from gristmill.kernels.hash.word_counts import add_words, export, no_words
from gristmill.kernels.html import bounds as html
from gristmill.kernels.html.facts import find_facts
from gristmill.kernels.html.page import PageBuffers
from gristmill.kernels.ngram.cut import cut_tables
from gristmill.kernels.ngram.score import perplexities, score, scratch
from gristmill.kernels.quality.features import cut_words, rows_of, vocabulary
from gristmill.kernels.quality.train import hash_pieces, score_rows, train_weights
from gristmill.kernels.scrub import shapes
from gristmill.kernels.scrub.candidates import find_candidates
from gristmill.kernels.signals.batch import measure
from gristmill.kernels.signals.terms import word_sets
from gristmill.kernels.text import fasttext_linear as linear
from gristmill.kernels.text.byte_strings import order_of, take_strings
from gristmill.kernels.text.code_scan import MARK_BYTES, MARKS, comment_chars, encoded_runs, visible_chars
from gristmill.kernels.text.cut_spans import first_bad_row, take_blank_lines, without_spans
from gristmill.kernels.text.lines import cut_lines
from gristmill.kernels.text.plain_form import plain_forms
from gristmill.kernels.text.snap_spans import snap_spans
from gristmill.kernels.text.unicode_classes import unicode_tables
from gristmill.stages.decontaminate.matching.index import search_of
from gristmill.stages.decontaminate.matching.words import WordHashes
from gristmill.stages.extract.main_text import Extractor
from gristmill.stages.quality.classifier_train import model_bytes
from gristmill.stages.quality.ngram_arpa import read_arpa
from gristmill.stages.shared.fasttext_model import parse
from lent_arrays import lent

TABLES = unicode_tables()
NGRAMS = (1, 0), (2, 7), (3, 50), (5, 3)
"""Words of the longest n-gram, and rows for n-grams."""
MODEL = Path(__file__).parents[1] / "stages" / "quality" / "mill.arpa"
KINDS = np.random.default_rng(1).integers(0, 6, 1 << 16, np.uint8)
PIECES = st.one_of(
    st.binary(max_size=12),
    st.text(max_size=6).map(str.encode),
    st.sampled_from([b" ", b"  ", b"\n", b"\r\n", b"\n\n", b"\\", b"word ", b"A" * 9, b"=" * 70, b"'''", b'"', b"/*"]),
    st.sampled_from([b"<", b"</", b"<!--", b"-->", b"<meta name=robots", b">", b"<script", b"</script>"]),
    st.sampled_from(
        [b"<meta name=date content=", b"<html lang=a>", b"<title>", b"<h1>", b" type=application/ld+json>"]
    ),
    st.sampled_from(
        [b"<p>", b"<b>", b"<q>", b"<td>", b"<li>", b"<rt>", b"<pre>", b"<math>", b"</math>", b"<svg/>", b"&#"]
    ),
    st.sampled_from(
        [b"<img class=tex alt=x>", b"</img>", b"<blockquote>", b"<ol start=9>", b"<table>", b"<annotation tex"]
    ),
    st.sampled_from([b"http://a.b:80/", b"//", b"?a=%", b"&amp;", b"%2", b"%41", b";x=", b"#!", b"@", b".", b"[::1]"]),
    st.sampled_from([b"</s>", b"__label__", b"<unk>", b"<s>", b"\0", b"-1.5\t", "\u5b57\u0e01".encode(), b"a" * 130]),
    st.sampled_from(["ȺȾ".encode(), "\u3000".encode(), "\u2019".encode(), b"\xf0\x9f\x98", b"\xe2\x80", b"\xff" * 9]),
)
ROWS = st.lists(st.lists(PIECES, max_size=12).map(b"".join), max_size=5)


def arrays(rows, before=b"", kind=np.int32):
    offsets = np.cumsum([len(before), *map(len, rows)]).astype(kind)
    (data,) = lent(np.frombuffer(before + b"".join(rows), np.uint8).copy())
    return data, offsets if kind is np.int64 else lent(offsets)[0]  # stages copy offsets of 64 bits


def spans_in(rows, draw):
    """Some bounds in each row, two for a span."""
    chosen = [sorted(draw.sample(range(len(row) + 1), min(4, (len(row) + 1) // 2 * 2))) for row in rows]
    firsts = np.cumsum([0, *map(len, chosen)]).astype(np.int64)
    return firsts, *lent(np.array([bound for row in chosen for bound in row], np.int64))


def read_texts(rows, before, draw):
    """What deduplication and measures do with texts."""
    data, offsets = arrays(rows, before)
    firsts, bounds = spans_in(rows, draw)
    first_bad_row(data, offsets, firsts, bounds)
    assert without_spans(data, offsets, firsts, bounds)[1][-1] <= len(data)
    for lines in (False, True):
        snap_spans(data, offsets, firsts, bounds, lines)
    wide = offsets.astype(np.int64)
    _, stops, _ = plain_forms(data.tobytes(), wide, KINDS, 2)
    starts = wide[:-1].copy()
    assert (starts <= stops).all()
    assert (stops <= wide[1:]).all()
    for form in (NONE, WHITESPACE, WORDS):
        assert len(hash_texts(data, offsets, form, TABLES)) == len(rows)
    for paragraphs in (False, True):
        keys, _, owners, _ = count_units(data, offsets, paragraphs, 1)
        wanted = [np.sort(keys[owners == row]) for row in range(len(rows))]
        starts = np.cumsum([0, *map(len, wanted)]).astype(np.int64)
        (flat,) = lent(np.concatenate([np.empty(0, np.uint64), *wanted]))
        spans, hashes, _ = find_units(data, offsets, starts, flat, paragraphs, 1)
        assert set(hashes.tolist()) == set(keys.tolist())
        take_blank_lines(data, offsets, spans)
    valid = np.ones(len(rows), np.bool_)
    cut_lines(offsets, data, valid, TABLES, 2, 5, True, True, True, np.zeros((0, 2), np.int64))
    measure(offsets, data, valid, TABLES, word_sets(["the"], ["bad word"]))
    band_hashes_of(data, offsets, 3, 2, 2, "fast", 1, np.zeros(len(rows), np.uint64), word_tables())
    shingle_sets(data, offsets, 2, word_tables())
    html.scan(data, offsets.astype(np.int64), 20)
    opened = shapes.openings([b"wor"])
    find_candidates(data, offsets, shapes.CLASSES, opened, np.zeros(64, np.uint8), True)


def read_pages(rows, before, _):
    """What extraction does with markup, in memory for no byte more than a page has."""
    data, words = html.as_words(np.frombuffer(before + b"".join(rows), np.uint8))
    ends = np.cumsum([len(before), *map(len, rows)]).tolist()
    for markdown in (False, True):
        extractor = Extractor(markdown=markdown)
        for row, (begin, stop) in zip(rows, pairwise(ends), strict=True):
            extractor._room = PageBuffers(len(row))
            text = extractor.text(data, words, begin, stop)
            extractor._room = PageBuffers(4 * len(row) + 64)
            assert extractor.text(*html.as_words(np.frombuffer(row, np.uint8)), 0, len(row)) == text


def read_strings(rows, before, _):
    """What tables of strings, the signals of code and the readers of lists do."""
    data, offsets = arrays(rows, before)
    wide = offsets.astype(np.int64)
    copied = data.copy()
    order = order_of(copied, wide)
    taken, ends = take_strings(copied, wide, order)
    assert [taken[a:b].tobytes() for a, b in pairwise(ends)] == sorted(rows)
    found = export(add_words(no_words(16), copied, wide, np.ones(len(rows), np.int64)))
    assert len(found.counts) == len(set(rows))
    count_pretokens(no_words(16), data, offsets, CL100K, class_table())
    repeated_spans(data, wide, np.arange(len(rows)), 8)
    hash_strings(data, offsets)
    ranks = np.frombuffer(bytes(range(len(rows) * 3)), np.uint8).reshape(len(rows), 3)
    keepers(*lent(np.zeros(len(rows), np.uint64), np.zeros(len(rows), np.uint64), ranks.copy()))
    marks = np.zeros((1, MARKS, MARK_BYTES), np.uint8)
    marks.flat[:2], marks.flat[16:18], marks.flat[24:26] = (47, 47), (47, 42), (42, 47)
    comment_chars(offsets, data, np.zeros(len(rows), np.int64), marks, np.full(1, 15))
    visible_chars(offsets, data, np.ones(len(rows), np.bool_))
    encoded_runs(offsets, data, np.ones(256, np.bool_), 3)
    facts = find_facts(data, wide)
    assert (wide[facts[:, 0]] <= facts[:, 2]).all()
    assert (facts[:, 3] <= wide[facts[:, 0] + 1]).all()


def read_evals(rows, before, draw):
    """What decontamination does: a row is an eval item, all of them are texts."""
    data, offsets = arrays(rows, before)
    chosen = draw.sample(range(len(rows)), min(2, len(rows)))
    starts, words = words_of(data, offsets, word_tables())
    assert [len(word_spans(data, low, high, word_tables())) for low, high in pairwise(offsets.tolist())] == np.diff(
        starts
    ).tolist()
    whole = table_for([words[starts[row] : starts[row + 1]] for row in chosen], 5)
    short = table_for([words[starts[row] : starts[row + 1]] for row in chosen], 1)
    count = len(short.ngram)
    support = Support(np.ones(count, np.int64), np.full(count, 9), np.arange(count + 1), np.resize(words, count))
    hits = match_texts(data, offsets, word_tables(), whole, short, support).hits
    assert (hits[:, TEXT_FROM] <= hits[:, TEXT_TO]).all()


def read_models(rows, before, draw):
    """What classifiers and language models learn of texts, and say of them."""
    data, offsets = arrays(rows, before, np.int64)
    starts, ends = offsets[:-1].copy(), offsets[1:].copy()
    for words, most in ((1, 1), (2, 3), (7, 100)):
        begins, stops, owners = cut_words(data, starts, ends, words, most)
        assert (starts[owners] <= begins).all()
        assert (begins < stops).all()
        assert (stops <= ends[owners]).all()
    hashes = hash_pieces(data, starts, ends)
    learn(data, starts, ends, hashes, draw.choice(NGRAMS), draw)
    found = score(data, starts, ends, read_arpa(MODEL).tables, cut_tables(), scratch())
    assert (found[:, 2] <= found[:, 1]).all()
    assert (np.isfinite(perplexities(found)) == (found[:, 1] > 0)).all()


def learn(data, starts, ends, hashes, ngrams, draw):
    """A classifier scores any texts as its training does."""
    known = vocabulary(data, starts, ends, 1, 20)
    size = len(known.starts) + ngrams[1]
    rows, firsts = rows_of(known, *ngrams, data, starts, ends)
    assert (rows < size).all()
    high = np.array([draw.random() < 0.5 for _ in starts], np.bool_)
    ones = np.ones(len(starts))
    weights = train_weights(rows, firsts, size, high.astype(float), ones, hashes, 2, 2.0, 1)
    assert np.isfinite(weights).all()
    model = parse(np.frombuffer(model_bytes(known, *ngrams, weights, 1, (1, 1)), np.uint8), "model")
    scores = linear.means(model.arrays, model.weights, data, starts, ends)
    none = np.diff(firsts) == 0
    assert (np.isnan(scores) == none).all()
    assert np.allclose(scores[~none], score_rows(rows, firsts, weights)[~none], atol=1e-5)


def table_for(units, seed_words):
    starts = np.cumsum([0, *map(len, units)]).astype(np.int64)
    ngrams, allowed = np.full(len(units), 9, np.int64), np.diff(starts) // 5
    words = np.concatenate([np.zeros(0, np.uint64), *units])
    return search_of(WordHashes(starts, words), ngrams, allowed, seed_words, words)


READERS = [read_texts, read_pages, read_strings, read_evals, read_models]


@pytest.mark.parametrize("read", READERS)
@given(ROWS, st.sampled_from([b"", b"ab\xff"]), st.randoms())
def test_any_bytes_do_no_harm(read, rows, before, draw):
    """Text or not, in any cut."""
    read(rows, before, draw)


@pytest.mark.parametrize("read", READERS)
def test_sizes_around_those_that_are_read_at_once(read):
    """8, 16, 32 and 64 bytes are read at once, but not where they are not there."""
    for byte in (b"a", b" ", b"\n", b"\xff", b"\xc2", b"<", b"/", b"%"):
        for size in (0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129):
            read([byte * size], b"", Random(size))
