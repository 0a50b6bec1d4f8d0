"""Law 10: no corpus makes the work of a question about it grow faster than the corpus. Every query has a worst case.

Documents of one host share a footer, half of them are copies, and everything that can be asked about them is asked at
once. Work is counted (fuzz/meter.py), not timed.
"""

import hashlib
import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from fuzz.meter import METERED
from tests.laws.worst_cases import FOOTER, imported, words, work_of

from conftest import Project
from gristmill import query

DOCUMENTS = (12, 48, 192)
MOST_GROWTH = 5.5
"""As in test_every_stage_is_linear.py."""


def text_of(number):
    return words(number - number % 2, 20) + FOOTER + " copy" * (number % 2)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A corpus of each size."""
    found = []
    for count in DOCUMENTS:
        project = Project(tmp_path_factory.mktemp(f"of{count}"))
        (project.folder / "in").mkdir()
        lines = [{"text": text_of(number), "url": f"https://a.example/{number}"} for number in range(count)]
        (project.folder / "in" / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
        project.write_recipe("  - exact_dedup\n  - near_dedup\n", ", fields: {url: url}", top="index: true")
        project.run()
        found.append(project.store)
    return found


def looked_up(seen, ids, urls, hashes):
    find = imported("gristmill.query.lookup").find
    find(seen, doc_id=ids, url=urls, url_prefix=urls, domain=["a.example"], content_hash=hashes)


def taken_down(seen, ids, urls, hashes):
    request = imported("gristmill.stages.takedown.requests").Request
    asked = [request(f"r{n}", urls=(url,)) for n, url in enumerate(urls)]
    asked.append(request("all", domains=("a.example",), url_prefixes=tuple(urls), doc_ids=tuple(ids)))
    imported("gristmill.query.takedown").would_go(seen, asked, {}, 0.8)


def rows_read(seen, ids, urls, hashes):
    for _ in imported("gristmill.query.documents").rows(seen, None, None, None):
        pass


def versions(seen, ids, urls, hashes):
    imported("gristmill.query.lineage").versions_with(seen.store, ids)


def clusters(seen, ids, urls, hashes):
    module = imported("gristmill.query.clusters")
    for node in module.cluster_steps(seen):
        module.largest(seen, node, len(ids), len(ids))


def compared(seen, ids, urls, hashes):
    imported("gristmill.query.diff").compare_documents(seen, seen, 10)


def funnel(seen, ids, urls, hashes):
    module = imported("gristmill.query.funnel")
    list(module.funnel_lines(module.funnels(seen)))


QUERIES = {
    "lookup": looked_up,
    "takedown": taken_down,
    "documents": rows_read,
    "lineage": versions,
    "clusters": clusters,
    "diff": compared,
    "funnel": funnel,
}
PARTS = {"candidates": "lookup", "withheld": "takedown", "lives": "lineage", "layers": "documents"}
"""Modules that have no question of their own -> the query that uses them."""
LEFT_OUT = {
    "counts that a run stored, not documents": (
        "audit", "changes", "disk", "evidence", "intervals", "limits", "measured", "mixture", "opening", "origin",
        "pinning", "plan", "published", "reasons", "reproduce", "shifts", "sizing", "touched", "verify", "whatif",
    ),
    "a sample of bounded size": (
        "bias", "bias_edge", "bias_groups", "extractor_pages", "extractor_training", "extractors", "gold",
        "gold_domains", "gold_scores", "register", "sample", "term_groups",
    ),
    "one pass by DuckDB or Parquet, a batch at a time": (
        "columns", "croissant", "dataset_card", "export", "joined_files", "prove", "sql", "sql_views",
    ),
}  # fmt: skip
"""Why a query has no worst case here."""


def test_every_query_has_a_worst_case():
    """A new module of queries has a question here, belongs to one, or a reason why it has none."""
    found = {path.stem for path in Path(query.__file__).parent.glob("*.py")} - {"__init__"}
    assert found == {*QUERIES, *PARTS, *(name for names in LEFT_OUT.values() for name in names)}


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_work_grows_no_faster_than_the_corpus(name, stores):
    """Four times the documents, and four times what is asked, take at most about four times the work."""
    work = []
    with METERED:
        store = importlib.import_module("gristmill.store.store").Store
        see = importlib.import_module("gristmill.engine.publish.run_record").see
        for folder, count in zip((stores[0], *stores), (DOCUMENTS[0], *DOCUMENTS), strict=True):
            seen = see(store(str(folder)), "project")
            ids = [
                row.fields["doc_id"].hex()
                for row in importlib.import_module("gristmill.query.documents").rows(seen, None, None, None)
            ]
            assert len(ids) == count
            urls = [f"https://a.example/{number}" for number in range(count)]
            hashes = [hashlib.sha256(text_of(number).encode()).hexdigest() for number in range(count)]
            work.append(
                work_of(lambda seen=seen, ids=ids, urls=urls, hashes=hashes: QUERIES[name](seen, ids, urls, hashes))
            )
    less, more = np.diff(work[1:]).tolist()
    assert more <= MOST_GROWTH * max(less, work[1] // 4), f"work {work[1:]} for {DOCUMENTS} documents"
