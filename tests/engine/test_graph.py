"""The graph of a recipe: what each step reads from which other step, on the route of each source, before any work."""

from pathlib import Path

import pytest

from gristmill.engine.plan.graph import drops, reads_from
from gristmill.errors import UserError
from gristmill.recipe.checks.columns import INGEST
from gristmill.schema import layer_schema
from gristmill.stages.dedup import copies_left
from stagebox import length

RECIPE = """recipe: project
store: ./store
sources:
  pages: {kind: web, read: {format: jsonl, paths: [in/00.jsonl]}}
  notes: {kind: text, read: {format: jsonl, paths: [in/01.jsonl]}}
steps:
  web: [stagebox.upper, stagebox.vocabulary]
  text: [stagebox.vocabulary]
  all:
  - stagebox.length
  - stagebox.longer_than: {chars: 9}
  - stagebox.exact
  - stagebox.rarity
  - stagebox.weigh
  - stagebox.bundle
"""


@pytest.fixture
def graph(project):
    """Two routes that differ at their beginning: pages have an additional step and an additional fit."""

    def of(until=None, recipe=RECIPE):
        project.recipe.write_text(recipe)
        return project.mill(until).graph

    return of


def bound(node, source):
    """Name of a column that a stage reads -> the layer that it comes from, and its name there."""
    view = node.views[source]
    return {name: (view.layers[layer], column) for layer, column, name in view.columns}


def hides(node, source):
    view = node.views[source]
    return [view.layers[gate] for gate in view.gates]


def test_a_chain_has_the_steps_of_its_route_and_the_verdict_on_all_last(graph):
    """In the order of the recipe; a step for all is one node, a step of a kind one for each kind."""
    made = graph()
    common = ("all/length", "all/longer_than", "all/exact", "all/rarity", "all/weigh", "all/bundle")
    assert made.chains == {
        "pages": ("web/upper", "web/vocabulary", *common, "pages/corpus"),
        "notes": ("text/vocabulary", *common, "notes/corpus"),
    }
    assert made.nodes["all/exact"].sources == ("pages", "notes")
    assert made.nodes["web/upper"].sources == ("pages",)
    assert made.read_node("notes").id == "notes/ingest"
    kinds = {made.nodes[name].kind for name in made.nodes}
    assert kinds == {"read", "map", "fit", "exchange", "sink"}
    assert {node.id for node in made.nodes.values() if not node.has_layers} == {
        "web/vocabulary",
        "text/vocabulary",
        "all/bundle",
    }


def test_the_inputs_of_a_node_come_before_it(graph):
    """In the order of the nodes, and at a smaller depth on every route that leads to it."""
    made = graph()
    before = set()
    for node in made.nodes.values():
        assert reads_from(node) <= before, node.id
        assert all(made.nodes[other].depth < node.depth for other in reads_from(node)), node.id
        before.add(node.id)
    assert reads_from(made.nodes["all/longer_than"]) == {"pages/ingest", "notes/ingest", "all/length"}


def test_depth_is_that_of_the_longest_route(graph):
    """Pages have passed two more steps than notes when both meet."""
    made = graph()
    depths = {name: made.nodes[name].depth for name in ("pages/ingest", "web/vocabulary", "text/vocabulary")}
    assert depths == {"pages/ingest": 0, "web/vocabulary": 2, "text/vocabulary": 1}
    assert made.nodes["all/length"].depth == 3
    assert (made.nodes["pages/corpus"].depth, made.nodes["notes/corpus"].depth) == (9, 8)


def test_a_column_is_that_of_the_newest_layer_on_the_route_of_each_source(graph):
    """One step changes the text of pages; notes have their text as it was read."""
    node = graph().nodes["all/length"]
    assert bound(node, "pages") == {"text": ("web/upper", "text")}
    assert bound(node, "notes") == {"text": (INGEST, "text")}
    assert bound(graph().nodes["all/longer_than"], "notes") == {"length.chars": ("all/length", "chars")}


def test_verdicts_before_a_step_hide_rows_from_it_on_request(graph):
    """Only on its own route, and only earlier ones: `upper` drops pages, `longer_than` both, `exact` itself."""
    nodes = graph().nodes
    assert hides(nodes["all/length"], "pages") == []
    assert hides(nodes["web/vocabulary"], "pages") == [INGEST, "web/upper"]
    assert hides(nodes["all/exact"], "notes") == [INGEST, "all/length", "all/longer_than"]
    assert hides(nodes["all/exact"], "pages") == [INGEST, "web/upper", "all/length", "all/longer_than"]


def test_a_model_is_that_of_the_own_route(graph):
    """`uses` names the makers on all routes; a sink names the step that counts for it, by source."""
    nodes = graph().nodes
    assert nodes["all/rarity"].uses == {"web/vocabulary", "text/vocabulary"}
    assert nodes["all/rarity"].views["notes"].models == {"vocabulary": "text/vocabulary"}
    assert nodes["all/bundle"].counts == {"pages": "all/weigh", "notes": "all/weigh"}
    assert nodes["all/exact"].uses == set()
    assert nodes["all/exact"].counts == {}


def test_until_cuts_the_graph_and_beyond_names_the_rest(graph):
    """By the name of a step or its id; assets, models and sinks beyond it are not nodes."""
    made = graph("longer_than")
    assert made.chains["notes"] == ("text/vocabulary", "all/length", "all/longer_than", "notes/corpus")
    assert made.beyond == ["all/exact", "all/rarity", "all/weigh", "all/bundle"]
    assert graph("all/longer_than").chains == made.chains
    assert graph("ingest").chains == {"pages": ("pages/corpus",), "notes": ("notes/corpus",)}
    assert graph().beyond == []
    with pytest.raises(UserError, match=r"until=lenght: .* has no such step\. Did you mean length\?"):
        graph("lenght")


def test_until_a_step_that_comes_twice_is_until_the_last(graph):
    """An id selects one of them."""
    twice = RECIPE.replace("  - stagebox.rarity\n", "  - stagebox.length\n  - stagebox.rarity\n")
    assert graph("length", twice).chains["notes"][-2] == "all/length_2"
    assert graph("all/length", twice).chains["notes"][-2] == "all/length"
    assert bound(graph(None, twice).nodes["all/longer_than"], "notes")["length.chars"][0] == "all/length"


def test_the_verdict_on_all_knows_every_step_that_has_a_say(graph):
    """And whose text counts: for pages the changed one, too. A cut route has the remaining ones."""
    made = graph()
    pages, notes = (made.nodes[f"{source}/corpus"].config for source in ("pages", "notes"))
    common = ("all/length", "all/longer_than", "all/exact", "all/rarity", "all/weigh")
    assert pages.steps == ("ingest", "web/upper", *common)
    assert notes.steps == ("ingest", *common)
    assert (pages.texts, notes.texts) == (("ingest", "web/upper"), ("ingest",))
    assert graph("length").nodes["pages/corpus"].config.steps == ("ingest", "web/upper", "all/length")


def test_text_counts_from_extraction_on_also_where_a_run_ends_before_it(project):
    """Markup is not text: before `extract` a page has no text."""
    project.write_recipe("  - extract\n  - stagebox.upper\n")
    assert project.mill().graph.nodes["notes/corpus"].config.texts == ("all/extract", "all/upper")
    assert project.mill("ingest").graph.nodes["notes/corpus"].config.texts == ()


def test_the_schema_says_whether_a_step_drops(graph):
    nodes = graph().nodes
    judging = [name for name, node in nodes.items() if node.kind in ("map", "exchange") and drops(node)]
    assert judging == ["web/upper", "all/longer_than", "all/exact", "pages/corpus", "notes/corpus"]
    assert nodes["all/length"].columns == tuple(layer_schema(length.SCHEMA).names)


def test_a_file_is_in_the_identity_by_its_content(project):
    """Two names of the same bytes are the same stage, other bytes are another; a mistake has the line."""

    def identity(name):
        project.write_recipe(f"  - stagebox.word_list: {{words: {name}}}\n")
        return project.mill().graph.nodes["all/word_list"].identity

    for name, words in (("a.txt", "mill"), ("b.txt", "mill"), ("c.txt", "grain")):
        Path(project.folder, name).write_text(words)
    assert identity("a.txt") == identity("b.txt") != identity("c.txt")
    with pytest.raises(UserError, match=r"recipe\.yaml:\d+: .*d\.txt"):
        identity("d.txt")


@pytest.mark.parametrize(
    ("steps", "snapshot", "words"),
    [
        ("[exact_dedup, near_dedup]", ", snapshot: '([0-9]+)'", None),
        ("[near_dedup]", "", None),
        ("[near_dedup]", ", snapshot: '([0-9]+)'", "Set `scope: global` for all/near_dedup"),
        ("[exact_dedup, line_dedup, near_dedup]", ", snapshot: '([0-9]+)'", "line_dedup changes texts after all/exact"),
        ("[exact_dedup, line_dedup, near_dedup: {scope: global}]", ", snapshot: '([0-9]+)'", None),
        ("[exact_dedup: {scope: source}]", "", "compares documents within each source"),
        ("{web: [exact_dedup], text: [exact_dedup]}", "", "text/exact_dedup and web/exact_dedup each compare"),
        ("{web: [exact_dedup], text: [stagebox.length]}", "", "no dedup step compares the texts of notes"),
        ("[url_dedup, line_dedup]", ", snapshot: '([0-9]+)'", None),
        ("{web: [url_dedup], text: [url_dedup]}", "", "Put one `url_dedup` under `all`"),
        ("{web: [near_dedup], text: [near_dedup]}", "", "Put one `near_dedup` under `all`"),
        ("[exact_dedup, stagebox.upper]", "", "all/upper changes texts after all/exact_dedup"),
        (
            "{web: [exact_dedup], text: [exact_dedup], all: [stagebox.upper]}",
            "",
            "text/exact_dedup and web/exact_dedup each compare",
        ),
        ("[stagebox.length]", "", None),
    ],
)
def test_copies_are_counted_where_no_dedup_step_compares_all_texts_as_they_end(graph, steps, snapshot, words):
    """By snapshot, source or route, without a step for a source, or before a step that changes texts."""
    sources = "\n".join(RECIPE.split("\n")[:5]).replace(".jsonl]}", f".jsonl]{snapshot}}}")
    made = graph(recipe=f"{sources}\nsteps: {steps}\n")
    assert [("copies_left" in chain) for chain in made.chains.values()] == [words is not None] * 2
    assert all(chain[-1].endswith("/corpus") for chain in made.chains.values())
    if words is not None:
        assert not drops(made.nodes["copies_left"])
        (message,) = copies_left.warnings({"copies": 2}, made.nodes["copies_left"].config)
        assert words in message
