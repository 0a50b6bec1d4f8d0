"""Law 10: the work of a query grows no faster than the corpus. Every query has a worst case.

Documents of one host share a footer, half of them are copies, and each query asks about all documents at once. Work is
counted (fuzz/meter.py), not timed.
"""

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import Project
from fuzz.meter import METERED
from tests.laws.worst_cases import FOOTER, imported, words, work_of
from tests.stages.decontaminate.suites import write_suite

import gold_pages
from gristmill import query

ROOT = Path(__file__).parents[2]
DOCUMENTS = (6, 24, 96)
MOST_GROWTH = 5.5
"""The same limit as in test_every_stage_is_linear.py."""
STEPS = """
  - signals
  - heuristics: {own: ["signals.words < 3 -> short"]}
  - exact_dedup
  - near_dedup: {verify_jaccard: JACCARD}
  - decontaminate: {suite: evals}
  - scrub
"""
TOP = """index: true
tokenizer: {train: {vocab: 600, sample_bytes: {notes: 1MB}}}
shards: {seq_len_tokens: 64, shard_tokens: 1024}
mix: {tokens: 512}
"""


def text_of(number):
    first = number - number % 2
    return f"{words(first, 20)} Write to miller{first}@kornmuehle.org.\n{FOOTER}{' copy' * (number % 2)}"


def write_project(folder, count):
    """Half of the documents are copies of others; all contain an address, and half an item of a suite."""
    project = Project(folder)
    (folder / "in").mkdir()
    lines = [{"text": text_of(number), "url": f"https://a.example/{number}"} for number in range(count)]
    (folder / "in" / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    items = [{"id": f"i{n}", "q": words(2 * n, 20), "a": "rye"} for n in range(0, count // 2, 2)]
    write_suite(folder / "evals", {"b": items})
    (folder / "terms").mkdir()
    (folder / "terms" / "mill.txt").write_text("mill\nmiller\nriver\n")
    return project


@pytest.fixture(scope="module")
def projects(tmp_path_factory):
    """One corpus of each size, and in its store another one that differs in one step."""
    found = []
    for count in DOCUMENTS:
        project = write_project(tmp_path_factory.mktemp(f"of{count}"), count)
        for name, jaccard in (("other", 0.95), ("project", 0.8)):
            project.write_recipe(STEPS.replace("JACCARD", f"{jaccard}"), ", fields: {url: url}}, domain: notes", TOP)
            text = project.recipe.read_text().replace("domain: notes}}", "domain: notes}")
            project.recipe.write_text(text.replace("recipe: project", f"recipe: {name}"))
            project.run()
        found.append(project)
    return found


class QueriedCorpus:
    """A corpus with a given number of documents, and the arguments for its queries."""

    def __init__(self, project, count):
        see = imported("gristmill.engine.publish.run_record").see
        store = imported("gristmill.store.store").Store(str(project.store))
        self.project, self.count = project, count
        self.view, self.other = see(store, "project"), see(store, "other")
        rows = imported("gristmill.query.documents.documents").rows(self.view, None, None, None)
        self.ids = [row.fields["doc_id"].hex() for row in rows]
        assert len(self.ids) == count
        self.urls = [f"https://a.example/{number}" for number in range(count)]
        self.hashes = [hashlib.sha256(text_of(number).encode()).hexdigest() for number in range(count)]

    def mill(self):
        return imported("gristmill.query.opening").open_mill(self.project.recipe)


def looked_up(corpus):
    find = imported("gristmill.query.documents.lookup").find
    urls = corpus.urls
    find(corpus.view, doc_id=corpus.ids, url=urls, url_prefix=urls, domain=["a.example"], content_hash=corpus.hashes)


def taken_down(corpus):
    request = imported("gristmill.stages.takedown.requests").Request
    requests = [request(f"r{n}", urls=(url,)) for n, url in enumerate(corpus.urls)]
    requests.append(request("all", domains=("a.example",), url_prefixes=tuple(corpus.urls), doc_ids=tuple(corpus.ids)))
    imported("gristmill.query.takedown.takedown").find_matches(corpus.view, requests, {}, 0.8)


def rows_read(corpus):
    module, evidence = imported("gristmill.query.documents.documents"), imported("gristmill.query.lineage.evidence")
    suites = evidence.Suites(corpus.view)
    flagged = 0
    for row in module.rows(corpus.view, None, None, None, cuts=True, flagged=True):
        for flag in row.flags:
            evidence.plain(flag, suites.item(flag))
            flagged += 1
    assert flagged >= corpus.count // 4
    assert len([*module.rows(corpus.view, None, None, None, number=corpus.count - 1)]) == corpus.count - 1


def versions(corpus):
    imported("gristmill.query.lineage.lineage").versions_with(corpus.view.store, corpus.ids)


def lives(corpus):
    """Looks up a passage that all documents contain."""
    lives_found = list(imported("gristmill.query.lineage.lives").lives_of(corpus.view, None, text=FOOTER))
    assert lives_found


def proved(corpus):
    """Proves that documents came from their bytes."""
    run = corpus.mill().dry_run()
    places = imported("gristmill.query.documents.lookup").find(run, doc_id=corpus.ids[: corpus.count // 6])
    prover = imported("gristmill.query.lineage.prove").Prover(run, places)
    shards = imported("gristmill.query.versions.published").Published(run)
    for place in places:
        prover.prove(place, list(imported("gristmill.query.lineage.lives").shard_pieces(shards, place.doc_id.hex())))


def shards_read(corpus):
    """Reads every sample of every shard."""
    shards = imported("gristmill.query.versions.published").Published(corpus.view)
    for group in shards.manifest.groups:
        for number, shard in enumerate(group.shards):
            files = shards.open_shard(group, number)
            for row in range(shard.samples):
                shards.pieces_at(shard, files, row)


def clusters(corpus):
    module = imported("gristmill.query.documents.clusters")
    for node in module.cluster_steps(corpus.view):
        module.largest(corpus.view, node, corpus.count, corpus.count)


def compared(corpus):
    imported("gristmill.query.versions.diff").compare_documents(corpus.other, corpus.view, corpus.count)
    imported("gristmill.query.watch").compare(corpus.view, corpus.other)


def canaries(corpus):
    """Takes all documents as canaries."""
    found = imported("gristmill.query.canaries").find(corpus.view, corpus.other, number=corpus.count)
    assert len(found) > corpus.count
    for one in found:
        assert one.words is not None


def funnel(corpus):
    module = imported("gristmill.query.removal.funnel")
    list(module.funnel_lines(module.funnels(corpus.view)))


def audited(corpus):
    module = imported("gristmill.query.removal.audit")
    steps = module.audited_steps(corpus.view, None)
    examples, _ = module.draw(corpus.view, steps, None, corpus.count)
    assert len(examples) >= corpus.count // 4
    assert module.counts(steps, corpus.view)


def biased(corpus):
    module = imported("gristmill_bias.bias")
    terms = imported("gristmill_bias.term_groups").TermGroups(str(corpus.project.folder / "terms"), 1)
    module.compare(corpus.view, module.Question("near_dedup", edge=corpus.count, terms=terms))


def changed(corpus):
    """Tries a new rule that drops all documents."""
    mill = corpus.mill()
    rule = json.dumps(["signals.words > 1 -> long"])
    (answer,) = imported("gristmill.query.removal.whatif").what_if(mill, mill.dry_run(), [f"heuristics.own={rule}"])
    assert answer.go.documents


def touched(corpus):
    report = imported("gristmill.query.lineage.touched").touched(corpus.view)
    assert report[0].benchmarks["b"].touched


def exported(corpus):
    out = corpus.project.folder / f"out{len(list(corpus.project.folder.iterdir()))}"
    imported("gristmill.query.export.export").export(corpus.view, out)


def sql(corpus):
    """Selects one column many times, and all documents."""
    session = imported("gristmill.query.documents.sql").Session(corpus.view)
    for question in (f"select {'url, ' * corpus.count} text from documents limit 1", "select * from documents"):
        for _ in session.ask(question)[1]:
            pass
    session.close()


def verified(corpus):
    """First nothing is broken; then one part per document is, and one of them comes from another recipe."""
    inline, silent = imported("gristmill.engine.executors.executor"), imported("gristmill.engine.mill").Silent
    module = imported("gristmill.query.versions.verify")
    run = corpus.mill().dry_run()
    assert not module.verify(run, 0.0, inline.InlineExecutor(run.store), silent()).broken
    lost = {f"{number}": (None, f"{number:032x}", "a step") for number in range(corpus.count)}
    own = {key for state in run.states.values() for key in state.tasks}
    elsewhere = next(key for state in corpus.other.states.values() for key in state.tasks if key not in own)
    lost |= {"own": (None, next(iter(own)), "a step"), "other": (None, elsewhere, "a step")}
    steps_by_part = module._made_by(run, lost)
    assert steps_by_part.pop("other") == "a step of the recipe other"
    assert {*steps_by_part.values()} == {"a step"}


def planned(corpus):
    """Plans with a long list in a config that changed completely."""
    mill = corpus.mill()
    run = mill.dry_run()
    module = imported("gristmill.query.sizing.plan")
    module.make_plan(mill, run, True)
    imported("gristmill.query.sizing.disk").estimate(run, mill.store, mill.known_before())
    imported("gristmill.query.sizing.mixture").foresee_mixture(run)
    imported("gristmill.query.versions.pinning").tokenizer_hint(mill, run)
    publishing = imported("gristmill.query.publishing")
    assert publishing.unguarded(run) is None
    publishing.unweighted(run)
    module.describe_change([f"a{n}" for n in range(corpus.count * 10)], [f"b{n}" for n in range(corpus.count * 10)])
    sizing = imported("gristmill.query.sizing.sizing")
    measured = sizing.last_measured(mill)
    sizing.size_up(measured, 1e9, 16)
    list(sizing.warnings(measured))


def sampled(corpus):
    for split in ("train", "held_out"):
        for _ in imported("gristmill.query.documents.sample").sample_texts(corpus.view, split):
            pass


def gold(corpus):
    """A page of unclosed tags, and pages that each have their own domain."""
    folder = corpus.project.folder / f"gold{len(list(corpus.project.folder.iterdir()))}"
    gold_pages.write_gold(folder, pages=corpus.count // 2)
    pages = imported("gristmill_extractor.gold").read_gold(folder)
    imported("gristmill_extractor.gold_domains").folds(pages, 2)
    html = f"<html><body>{'<div><p>The mill by the river. ' * corpus.count}</body></html>"
    (folder / "page.html").write_text(html)
    module = imported("gristmill_extractor.pages")
    module.show(module.page_of_file(str(folder / "page.html")))
    imported("gristmill_extractor.gold_scores").score_text(html, html)
    training = imported("gristmill_extractor.training")
    for page in pages:
        training.labelled(page, training.Extractor(training._nothing()))
    imported("gristmill_extractor.extractors").bare_resiliparse(pages)


def opened(corpus):
    """Opens the recipe and the run by name; an unknown name lists the runs of the store.

    Opening costs a hundred times as much as one document, so there are more names and sources than documents.
    """
    module, errors = imported("gristmill.query.opening"), imported("gristmill.errors")
    name, many = f"{corpus.project.store}@project", 20 * corpus.count
    module.check_finished(module.dry_run(corpus.mill()))
    module.check_finished(module.open_run(name))
    for refused in (
        lambda: module.open_mill(name),
        lambda: module.open_run(f"{name}{'s' * many}"),
        lambda: module.refuse_folder(str(corpus.project.store)),
        lambda: module.check_finished(unfinished_run(corpus, many)),
    ):
        with pytest.raises(errors.UserError):
            refused()


def unfinished_run(corpus, sources):
    """A run of so many sources, none of which finished."""
    facts = imported("gristmill.engine.plan.facts").NodeFacts
    state = SimpleNamespace(missing=(), waiting=("task",))
    chains = {f"s{number}": (f"s{number}/corpus",) for number in range(sources)}
    nodes = {one: facts(one, "corpus", "map", (source,), (), {}) for source, (one,) in chains.items()}
    view = imported("gristmill.engine.schedule.corpus_view").CorpusView(
        "project", "recipe.yaml", corpus.view.store, nodes, chains, dict.fromkeys(nodes, state), corpus.view.record
    )
    view.documents = dict.fromkeys(chains, ())
    view.documents[f"s{sources - 1}"] = [corpus]
    return view


def reproduced(corpus):
    """All datasets are compared, and the last one differs in all input files. Fake stages do the run's work."""
    module, silent = imported("gristmill.query.versions.reproduce"), imported("gristmill.engine.mill").Silent
    store = corpus.view.store
    version = imported("gristmill.engine.publish.catalog").find_version(store, "project")
    into = corpus.project.folder / f"again{len(list(corpus.project.folder.iterdir()))}"
    mill = module.prepare(version, str(corpus.project.recipe), str(into))
    nodes = version.record["nodes"]
    last, files = list(nodes)[-1], [f"f{number}" for number in range(10 * corpus.count)]
    nodes[last]["files"] = dict.fromkeys(files, "1")
    other = {**nodes[last], "files": dict.fromkeys(files, "2"), "datasets": dict.fromkeys(nodes[last]["datasets"], "0")}
    mill.run = lambda *_: SimpleNamespace(ended={"nodes": {**nodes, last: other}})
    found = module.reproduce(version, mill, None, silent())
    assert (found.step, len(found.why)) == (last, 1)


QUERIES = {
    "lookup": looked_up,
    "takedown": taken_down,
    "documents": rows_read,
    "lineage": versions,
    "lives": lives,
    "prove": proved,
    "published": shards_read,
    "clusters": clusters,
    "diff": compared,
    "canaries": canaries,
    "funnel": funnel,
    "audit": audited,
    "bias": biased,
    "whatif": changed,
    "touched": touched,
    "export": exported,
    "sql": sql,
    "verify": verified,
    "plan": planned,
    "sample": sampled,
    "gold": gold,
    "opening": opened,
    "reproduce": reproduced,
}
PARTS = {
    "candidates": "lookup", "withheld": "takedown", "layers": "documents", "evidence": "documents", "origin": "prove",
    "watch": "diff", "comparisons": "diff", "distances": "diff", "histograms": "diff",
    "changes": "whatif", "cut_pieces": "documents", "draw": "documents",
    "columns": "export", "croissant": "export", "dataset_card": "export", "sql_views": "sql",
    "sql_columns": "sql", "disk": "plan", "mixture": "plan", "pinning": "plan",
    "publishing": "plan", "asking": "plan", "derived": "export", "word_changes": "canaries",
    "sizing": "plan", "disclosure": "export", "page_image": "lookup",
}  # fmt: skip
"""Modules without their own worst case -> the query that uses them."""
PLUGINS = {
    "bias": {"bias", "edge", "groups", "intervals", "register", "term_groups"},
    "gold": {"gold", "gold_domains", "gold_scores", "pages", "training", "extractors"},
}
"""Queries of separate packages -> the modules they use; the other modules are commands, pages and kernels."""
OTHERS = {
    *("align", "boosting", "commands", "page", "report", "show_command", "train_command", "whole_file"),
}


def test_every_query_has_a_worst_case():
    """A new module of queries has a case here or belongs to an existing one."""
    found = {path.stem for path in Path(query.__file__).parent.rglob("*.py")} - {"__init__"}
    assert found == {*QUERIES, *PARTS} - PLUGINS.keys()
    of_packages = {
        path.stem for name in ("bias", "extractor") for path in (ROOT / "packages" / name / "src").rglob("*.py")
    }
    assert of_packages - {"__init__"} == set[str]().union(*PLUGINS.values()) | OTHERS
    assert {*PARTS.values()} <= QUERIES.keys()


@pytest.fixture(scope="module")
def corpora(projects):
    """The corpora as the counting copies of our modules see them. The first one comes twice: it fills the caches."""
    with METERED:
        return [QueriedCorpus(*one) for one in zip((projects[0], *projects), (DOCUMENTS[0], *DOCUMENTS), strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_work_grows_no_faster_than_the_corpus(name, corpora):
    """Four times the documents, with four times the arguments, take at most about four times the work."""
    with METERED:
        work = [work_of(lambda corpus=corpus: QUERIES[name](corpus)) for corpus in corpora]
    less, more = np.diff(work[1:]).tolist()
    # Fixed costs must not hide the growth: opening a recipe costs a hundred times as much as a document.
    assert more <= MOST_GROWTH * max(less, work[1] // 100), f"work {work[1:]} for {DOCUMENTS} documents"
