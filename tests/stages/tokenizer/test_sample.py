"""The sample of the tokenizer is exact and independent of batches, and held-out text is never trained on."""

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exchanged import run_exchange
from gristmill.stages.tokenizer import tokenizer_sample, tokenizer_text
from gristmill.stages.tokenizer.tokenizer_sample import Config, warnings

DOMAINS = {"crawl": "web", "news": "web", "wiki": "reference", "repos": "code"}
WORD = 2**64 - 1


def corpus(documents, seed=5, most_bytes=400):
    draw = random.Random(seed)
    return [
        {
            "doc_id": draw.randbytes(16),
            "source": draw.choice(sorted(DOMAINS)),
            "text_bytes": draw.randint(0, most_bytes),
        }
        for _ in range(documents)
    ]


def config_of(budgets, share=0.1, seed=3, domains=DOMAINS):
    return Config(sample_bytes=budgets, held_out_share=share, seed=seed, domains=domains)


def cut(rows, sizes):
    parts, at = [], 0
    while at < len(rows):
        step = sizes[len(parts) % len(sizes)]
        parts.append(as_table(rows[at : at + step]))
        at += step
    return parts


def as_table(rows):
    types = {"doc_id": pa.binary(16), "source": pa.string(), "text_bytes": pa.int64()}
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()})


def sampled(rows, config, sizes=(1000,), **ways):
    parts = cut(rows, sizes)
    layers, counts = run_exchange(tokenizer_sample, config, parts, **ways)
    found = {}
    for part, layer in zip(parts, layers, strict=True):
        found |= zip(part["doc_id"].to_pylist(), layer["split"].to_pylist(), strict=True)
    return found, counts


def mixed(value):
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & WORD
    return value ^ (value >> 31)


def expected(rows, config):
    """The oracle: one document after the other, in the order of its hash."""

    def order(row):
        first, second = (int.from_bytes(half, "big") for half in (row["doc_id"][:8], row["doc_id"][8:]))
        return mixed(first ^ mixed(second ^ mixed((config.seed + 0x9E3779B97F4A7C15) & WORD))), second

    found = {row["doc_id"]: None for row in rows}
    for domain, budget in config.sample_bytes.items():
        if not budget:
            continue
        mine = sorted((r for r in rows if config.domains[r["source"]] == domain and r["text_bytes"]), key=order)
        room = int(config.held_out_share * min(budget, sum(row["text_bytes"] for row in mine)))
        if config.held_out_share and len(mine) > 1:
            first = mine.pop()
            found[first["doc_id"]] = "held_out"
            room -= first["text_bytes"]
        while mine and room >= mine[-1]["text_bytes"] and config.held_out_share:
            room -= mine[-1]["text_bytes"]
            found[mine.pop()["doc_id"]] = "held_out"
        for row in mine:
            budget -= row["text_bytes"]
            if budget < 0:
                break
            found[row["doc_id"]] = "train"
    return found


@settings(max_examples=60, deadline=None)
@given(
    documents=st.integers(0, 120),
    seed=st.integers(0, 2**63 - 1),
    budget=st.integers(0, 30_000),
    share=st.sampled_from([0.0, 0.01, 0.1, 0.5]),
    bits=st.integers(0, 9),
    size=st.integers(1, 50),
)
def test_the_sample_is_that_of_the_oracle(documents, seed, budget, share, bits, size):
    """Any budget, share, seed, ranges of keys and parts give the documents of the oracle."""
    rows = corpus(documents, seed)
    config = config_of({"web": budget, "reference": 3_000, "code": 0}, share, seed)
    assert sampled(rows, config, (size,), bits=bits)[0] == expected(rows, config)


def test_order_parts_and_ranges_do_not_matter():
    """Shuffled documents in parts of other sizes, and one reducer or many, give the same documents and counts."""
    rows = corpus(300)
    first = sampled(rows, config_of({"web": 9_000, "reference": 4_000, "code": 10**9}))
    for seed, sizes, bits in ((1, (1,), 3), (2, (13, 200, 7), 3), (3, (300,), 0), (4, (50, 3), 9)):
        random.Random(seed).shuffle(rows)
        budgets = {"web": 9_000, "reference": 4_000, "code": 10**9}
        assert sampled(rows, config_of(budgets), sizes, bits=bits) == first


def test_documents_of_one_hash_are_ordered_by_doc_id(monkeypatch):
    """The doc_id breaks ties."""
    true = tokenizer_sample.doc_order
    monkeypatch.setattr(tokenizer_sample, "doc_order", lambda ids, seed: (true(ids, seed)[0] * 0, true(ids, seed)[1]))
    rows = corpus(200)
    config = config_of({"web": 9_000, "reference": 1_000, "code": 5_000})
    first = sampled(rows, config)
    assert len(set(first[0].values())) == 3
    random.Random(0).shuffle(rows)
    assert sampled(rows, config, (17,)) == first


def test_budgets_are_kept_and_counted():
    """A sample is never above its budget, and below it by less than a document; the counts match."""
    rows = corpus(900)
    config = config_of({"web": 30_000, "reference": 9_000, "code": 0})
    found, counts = sampled(rows, config)
    assert set(counts["domains"]) == {"web", "reference"}
    for domain, counted in counts["domains"].items():
        mine = [row for row in rows if DOMAINS[row["source"]] == domain and row["text_bytes"]]
        for split in ("train", "held_out"):
            taken = [row["text_bytes"] for row in mine if found[row["doc_id"]] == split]
            assert counted[split] == {"documents": len(taken), "bytes": sum(taken)}
        assert counted["available"] == {"documents": len(mine), "bytes": sum(row["text_bytes"] for row in mine)}
        budget = config.sample_bytes[domain]
        assert budget - 400 < counted["train"]["bytes"] <= budget
        assert 0.1 * budget - 400 < counted["held_out"]["bytes"] <= 0.1 * budget
    assert warnings(counts, config) == []


def test_a_larger_budget_moves_no_document_to_the_other_side():
    """A larger sample does not hold out what a smaller one trained on, nor the other way round."""
    rows = corpus(2000)
    before = {}
    for budget in (5_000, 20_000, 80_000):
        found = sampled(rows, config_of({"web": budget, "reference": budget, "code": budget}))[0]
        assert all(found[document] == split for document, split in before.items() if split)
        before = found


def test_a_plan_shows_the_budgets():
    """It shows the budget of each domain before any work; a domain without a budget is not listed."""
    lines = tokenizer_sample.explain(config_of({"web": 20_000, "code": 0}))
    assert lines == ["web: 20,000 bytes to train on, 2,000 held out"]


def test_another_seed_samples_other_documents():
    """The seed decides."""
    rows = corpus(500)
    one, other = (sampled(rows, config_of({"web": 9_000}, seed=seed))[0] for seed in (1, 2))
    assert one != other


def test_a_domain_below_its_budget_is_used_whole_with_a_warning():
    """All text that is not held out is used, with a warning; a domain without text or with one document is also a
    warning.
    """
    rows = [row for row in corpus(300) if row["source"] != "repos"]
    rows.append({"doc_id": bytes(16), "source": "repos", "text_bytes": 70})
    config = config_of({"web": 10**9, "reference": 9_000, "code": 50, "math": 10}, domains={**DOMAINS, "sums": "math"})
    found, counts = sampled(rows, config)
    assert {found[row["doc_id"]] for row in rows if DOMAINS[row["source"]] == "web" and row["text_bytes"]} == {
        "train",
        "held_out",
    }
    warned = warnings(counts, config)
    assert [message.split(" has ")[0] for message in warned if " has " in message] == [
        "the domain code",
        "the domain math",
        "the domain web",
    ]
    held = counts["domains"]["web"]["held_out"]["bytes"]
    assert any(
        f"budget of 1,000,000,000; all are used, {held:,} of them held out instead of 100,000,000" in message
        for message in warned
    )
    assert any("only 0 of 50 bytes of the domain code are used" in message for message in warned)


def test_all_domains_below_their_budgets_are_one_warning():
    """A first recipe often has too little of every domain."""
    config = config_of({"web": 10**9, "reference": 10**9, "code": 10**9})
    _, counts = sampled(corpus(300), config)
    (warned,) = (message for message in warnings(counts, config) if "all are used" in message)
    assert [warned.count(f"he domain {name} has") for name in ("code", "reference", "web")] == [1, 1, 1]


@pytest.mark.parametrize("offset", [0, 3])
def test_the_texts_of_the_sample_have_their_domain_and_split(offset):
    """Sampled documents have text and domain; the others have nulls."""
    rows = [
        ("a", "crawl", "en", "train"),
        ("b", "repos", "python", None),
        ("c", "wiki", None, "held_out"),
        ("d", "news", "de", "train"),
    ] * 2
    columns = list(zip(*rows, strict=True))
    batch = pa.RecordBatch.from_arrays(
        [pa.array(column, pa.string()) for column in columns], names=list(tokenizer_text.READS)
    ).slice(offset)
    made = tokenizer_text.apply(batch, tokenizer_text.Config(domains=DOMAINS)).to_pylist()
    assert made == [
        {
            "sampled": text if split else None,
            "domain": DOMAINS[source] if split else None,
            "language": language if split else None,
            "split": split,
        }
        for text, source, language, split in rows[offset:]
    ]


def test_held_out_text_below_its_share_is_a_warning():
    """The next document may not fit, and measurements on one document are rough."""
    rows = [{"doc_id": bytes([number]) * 16, "source": "web", "text_bytes": 3_000} for number in range(100)]
    config = Config(sample_bytes={"web": 100_000}, held_out_share=0.065, domains={"web": "web"})
    counts = sampled(rows, config)[1]
    assert counts["domains"]["web"]["held_out"]["bytes"] == 6_000
    (warned,) = warnings(counts, config.model_copy(update={"held_out_share": 0.08}))
    assert "only 6,000 of 8,000 bytes of the domain web are held out (2 documents), because the next document" in warned
    assert warnings(counts, config) == []
    config = config.model_copy(update={"held_out_share": 0.05})
    few = {"domains": {"web": {"available": {"bytes": 10**6, "documents": 9}, "train": {"bytes": 99_000}}}}
    few["domains"]["web"]["held_out"] = {"bytes": 900, "documents": 1}
    (warned,) = warnings(few, config)
    assert "only 900 of 5,000 bytes of the domain web are held out (1 document)" in warned
    assert "held_out_share" in warned
