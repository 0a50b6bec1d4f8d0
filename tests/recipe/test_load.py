"""A recipe without mistakes becomes exactly what it says, the same from everywhere."""

import dataclasses
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gristmill.errors import UserError
from gristmill.recipe.checks.mistakes import Mistakes
from gristmill.recipe.load import load
from gristmill.recipe.model import Recipe
from gristmill.recipe.yaml.environment import substitute
from gristmill.recipe.yaml.lines import YamlTree, parse, typed
from gristmill.schema import DOCUMENTS
from gristmill.stages.declarations import NotAStage, stage_of

FULL = """\
recipe: web-2026.11
seed: 42
store: ./store
strict: true
sources:
  cc:
    kind: web
    read:
      format: lines
      paths: ["crawl/*/*.gz", /abs/x.gz, "memory://bucket/**", ../up/]
      exclude: [crawl/bad/]
      snapshot: "crawl/([^/]+)/"
      part_bytes: 64MiB
      field_text: body
    license: CC-BY-4.0
    domain: web
    tier: B
  wiki: {kind: text, read: {format: jsonl, paths: [wiki], snapshot: 2024-10-01}}
  own: {kind: web, read: {format: lines, paths: [x]}}
steps:
  web:
    - clean: {min_words: 3}
    - pairs
    - clean:
  own:
    - own.writes: {columns: [a, b]}
    - needs: {columns: [writes.a, b, text]}
  all:
    - trainer
    - user_of_model
"""


@pytest.fixture
def full(loaded: Callable[..., Recipe]) -> Recipe:
    return loaded(FULL)


def test_every_value_arrives(full: Recipe, tmp_path: Path) -> None:
    """Each field of the file is in the recipe, typed, with its line; a missing field has its default."""
    folder = f"{tmp_path}/recipes"
    assert (full.name, full.seed, full.store, full.strict) == ("web-2026.11", 42, f"{folder}/store", True)
    assert full.path == f"{folder}/r.yaml"
    assert list(full.sources) == ["cc", "wiki", "own"]
    cc, wiki, _ = full.sources.values()
    assert cc.paths == (f"{folder}/crawl/*/*.gz", "/abs/x.gz", "memory://bucket/**", f"{tmp_path}/up")
    assert cc.exclude == (f"{folder}/crawl/bad",)
    assert (cc.kind, cc.format, cc.module, cc.line) == ("web", "lines", "own.lines_reader", 6)
    assert (cc.part_bytes, cc.license, cc.domain, cc.tier) == (64 * 2**20, "CC-BY-4.0", "web", "B")
    assert cc.config.model_dump() == {"field_text": "body", "max_record_bytes": 1000, "seed": 42}
    assert (wiki.part_bytes, wiki.license, wiki.exclude, wiki.line) == (64 * 2**20, None, (), 18)


def test_route_is_the_own_list_or_that_of_the_kind_and_then_all(full: Recipe) -> None:
    """A source's own list replaces its kind's; `all` comes last; a second step of a name gets a number."""
    routes = {name: [step.id for step in route] for name, route in full.routes.items()}
    last = ["all/trainer", "all/user_of_model"]
    assert routes == {
        "cc": ["web/clean", "web/pairs", "web/clean_2", *last],
        "wiki": last,
        "own": ["own/writes", "own/needs", *last],
    }
    assert len({step.id for step in full.steps}) == len(full.steps) == 7
    assert {step.id for route in full.routes.values() for step in route} == {step.id for step in full.steps}
    assert [(step.line, step.name, step.route) for step in full.steps][2:4] == [
        (24, "clean", "web"),
        (26, "writes", "own"),
    ]


def test_recipe_cannot_be_changed(full: Recipe) -> None:
    """Recipe, source, step and config are frozen: nothing that runs can alter what was checked."""
    for thing, name in ((full, "seed"), (full.sources["cc"], "kind"), (full.steps[0], "id")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, name, "x")
    with pytest.raises(ValueError, match="frozen"):
        full.steps[0].config.min_words = 1


def test_steps_may_be_one_list_for_every_source(loaded: Callable[..., Recipe]) -> None:
    """A list instead of the mapping is the list under `all`, and means the same."""
    short = FULL[: FULL.index("steps:")] + "steps: [clean, {pairs: {}}]\n"
    long = FULL[: FULL.index("steps:")] + "steps: {all: [clean, {pairs: {}}]}\n"
    assert loaded(short) == loaded(long)


def test_snapshot_is_a_literal_or_found_in_the_path(full: Recipe) -> None:
    """A snapshot without regex characters is itself (a date, too); one with a group is what the group matches."""
    cc, wiki, own = full.sources.values()
    assert cc.snapshots_of(["/data/crawl/CC-2024-10/x.gz"]) == ["CC-2024-10"]
    assert cc.snapshots_of(["/data/x.gz"]) == [None]
    assert wiki.snapshots_of(["/anything"]) == ["2024-10-01"]
    assert own.snapshots_of(["/anything"]) == [None]


def test_working_directory_does_not_matter(full: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same file gives the same recipe from every working directory, by a relative or an absolute path."""
    monkeypatch.chdir("/")
    by_relative = load(os.path.relpath(full.path), env={})
    assert dataclasses.replace(by_relative, path=full.path) == full


def test_store_of_the_command_line_is_relative_to_the_working_directory(
    loaded: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--store` overrides the recipe's store and is relative to the working directory."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert loaded(FULL, store="s").store == f"{tmp_path}/here/s"
    assert loaded(FULL, store="memory://s").store == "memory://s"
    assert loaded(FULL.replace("store: ./store", "store: s3://needs/a-package"), store="s").store.endswith("/here/s")


def test_store_has_a_default_and_knows_home(loaded: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `store` it is the folder `store` next to the recipe; `~` is the home folder."""
    assert loaded(FULL.replace("store: ./store\n", "")).store == loaded(FULL).store
    monkeypatch.setenv("HOME", "/home/somebody")
    assert loaded(FULL.replace("./store", "~/s")).store == "/home/somebody/s"


def test_glob_characters_of_the_folder_are_escaped(own: None, tmp_path: Path) -> None:
    """A recipe in a folder called [x] reads its files from that folder, not from one called x."""
    folder = tmp_path / "[x]"
    folder.mkdir()
    (folder / "r.yaml").write_text(FULL)
    recipe = load(folder / "r.yaml", env={})
    assert recipe.sources["cc"].paths[0] == f"{tmp_path}/[[]x]/crawl/*/*.gz"
    assert recipe.store == f"{folder}/store"


def test_seed_of_the_recipe_fills_the_configs_that_have_one(loaded: Callable[..., Recipe]) -> None:
    """A config's `seed` is the recipe's unless the user sets it; a config without one is left alone."""
    text = FULL.replace("min_words: 3", "seed: 7")
    steps = {step.id: step.config for step in loaded(text).steps}
    assert (steps["web/clean"].seed, steps["web/clean_2"].seed) == (7, 42)
    assert not hasattr(steps["web/pairs"], "seed")
    without = loaded(text.replace("seed: 42\n", ""))
    assert (without.seed, without.sources["cc"].config.seed) == (0, 0)


def test_files_are_found_next_to_the_recipe(loaded: Callable[..., Recipe], tmp_path: Path) -> None:
    """Fields of type File, optional, in lists and in mappings, become absolute strings; a literal is not a file."""
    (tmp_path / "recipes" / "lists").mkdir(parents=True)
    (tmp_path / "b.txt").touch()
    text = FULL[: FULL.index("steps:")] + (
        "steps:\n  - listed: {blocked: ../b.txt, more: lists, lists: [r.yaml, lists],\n"
        "      named: {x: r.yaml}, pick: builtin}\n"
        "  - listed: {blocked: r.yaml, pick: lists}\n"
    )
    first, second = (step.config for step in loaded(text).steps)
    folder = f"{tmp_path}/recipes"
    assert first.model_dump() == {
        "blocked": f"{tmp_path}/b.txt",
        "more": f"{folder}/lists",
        "lists": [f"{folder}/r.yaml", f"{folder}/lists"],
        "named": {"x": f"{folder}/r.yaml"},
        "pick": "builtin",
    }
    assert (second.more, second.lists, second.pick) == (None, [], f"{folder}/lists")


def test_file_in_an_object_store_must_exist(loaded: Callable[..., Recipe]) -> None:
    """A File with a scheme is unchanged, and must exist there."""
    import fsspec

    text = FULL[: FULL.index("steps:")] + "steps:\n  - listed: {blocked: 'memory://test_load/b.txt'}\n"
    with pytest.raises(UserError, match=r"memory://test_load/b\.txt does not exist"):
        loaded(text)
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/test_load/b.txt", b"x")
    try:
        assert loaded(text).steps[0].config.blocked == "memory://test_load/b.txt"
    finally:
        memory.rm("/test_load", recursive=True)


def test_variables_are_typed_as_though_they_stood_there(loaded: Callable[..., Recipe]) -> None:
    """An unquoted ${NAME} is a number if its value is one; a quoted one is text; a key is never substituted."""
    env = {"SEED": "7", "NAME": "n-1", "TIER": "1", "KIND": "[a, b]"}
    text = (
        'recipe: ${NAME}\nseed: ${SEED}\nsources:\n  a: {kind: web, domain: "${KIND}", tier: "${TIER}", '
        'read: {format: lines, paths: ["${ROOT:-/data}/$${x}/*$"]}}\nsteps:\n  - clean: {keep: {"${SEED}": 0.5}}\n'
    )
    recipe = loaded(text, env=env)
    assert (recipe.name, recipe.seed) == ("n-1", 7)
    source = recipe.sources["a"]
    assert (source.tier, source.domain, source.paths) == ("1", "[a, b]", ("/data/${x}/*$",))
    assert recipe.steps[0].config.keep == {"${SEED}": 0.5}


@settings(max_examples=50, deadline=None)
@given(st.text(), st.dictionaries(st.sampled_from(["A", "B_1"]), st.text()))
def test_doubled_dollars_give_the_text_back(text: str, env: dict[str, str]) -> None:
    """Any text can be written: with its dollars doubled, substitution returns it in any environment."""
    assert substitute(text.replace("$", "$$"), env) == text
    assert substitute("${A:-d}", env) == (env.get("A") or "d")


def test_environment_is_that_of_the_process(loaded: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `env`, variables come from the process's environment."""
    monkeypatch.setenv("GRISTMILL_TEST_SEED", "99")
    assert loaded(FULL.replace("seed: 42", "seed: ${GRISTMILL_TEST_SEED}"), env=None).seed == 99


def values_of(text: str) -> YamlTree:
    mistakes = Mistakes("x.yaml")
    tree = parse(text, {}, mistakes)
    mistakes.raise_any()
    return tree


scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text()
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(min_size=1), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.dictionaries(st.text(min_size=1), trees, max_size=4), st.booleans())
def test_yaml_is_read_as_it_was_written(value: dict[str, object], flow: bool) -> None:
    """What PyYAML writes (text in quotes) is what is read, in block and in flow style."""

    def doubled(tree: object) -> object:
        if isinstance(tree, str):
            return tree.replace("$", "$$").replace("\0", "")
        if isinstance(tree, dict):
            return {key: doubled(inner) for key, inner in tree.items()}
        return [doubled(inner) for inner in tree] if isinstance(tree, list) else tree

    def undoubled(tree: object) -> object:
        if isinstance(tree, str):
            return tree.replace("$$", "$")
        if isinstance(tree, dict):
            return {key: undoubled(inner) for key, inner in tree.items()}
        return [undoubled(inner) for inner in tree] if isinstance(tree, list) else tree

    written = doubled(value)
    text = yaml.dump(written, default_flow_style=flow, allow_unicode=True, Dumper=Quoting)
    assert values_of(text).value == undoubled(written)


class Quoting(yaml.SafeDumper):
    """Writes every text in quotes, so that it stays text."""


Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("y", "y"),
        ("2024-10-01", "2024-10-01"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("1e-3", 1e-3),
        ("0x1F", 31),
        ("0o17", 15),
        ("017", 17),
        ("-5", -5),
        (".5", 0.5),
        ("-.inf", float("-inf")),
        ("True", True),
        ("~", None),
        ("", None),
        ("٣", "٣"),
        ("1" * 5000, "1" * 5000),
        ("1e999", "1e999"),
        ("v1.2.3", "v1.2.3"),
    ],
)
def test_unquoted_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    """A language code, a date or a version is text; numbers are numbers in every notation of YAML 1.2."""
    assert typed(text) == value
    assert type(typed(text)) is type(value)


def test_lines_of_keys_and_values() -> None:
    """Block, flow, quoted, folded and aliased values have the line on which they are written."""
    text = "a: &a\n  b: 1\n  c:\n    - x\n    - {d: 2,\n       e: 3}\nf: >\n  folded\n  text\n"
    text += "g: *a\nh:\n  <<: *a\n  b: 4\n"
    tree = values_of(text)
    keys = {("a",): 1, ("a", "b"): 2, ("a", "c"): 3, ("a", "c", 1, "e"): 6, ("f",): 7, ("g",): 10, ("g", "b"): 2}
    keys |= {("h",): 11, ("h", "b"): 13, ("h", "c"): 3, ("h", "c", 1, "d"): 5}
    values = {("a",): 1, ("a", "c"): 4, ("a", "c", 0): 4, ("a", "c", 1): 5, ("f",): 7, ("h", "b"): 13}
    assert {path: tree.line_of_key(path) for path in keys} == keys
    assert {path: tree.line_of_value(path) for path in values} == values
    assert tree.line_of_key(("a", "c", 1, "missing", "deep")) == 5


def test_own_keys_override_merged_ones() -> None:
    """A mapping's own keys win over merged ones, and the first merged mapping over the next, as YAML says."""
    text = "a: &a {x: 1, y: 1}\nb: &b {x: 2, z: 2}\nc: {<<: [*a, *b], y: 3}\nd: {y: 4, <<: *b}\ne: {'<<': 5}\n"
    value = values_of(text).value
    assert value["c"] == {"x": 1, "y": 3, "z": 2}
    assert value["d"] == {"x": 2, "y": 4, "z": 2}
    assert value["e"] == {"<<": 5}
    plain = text.replace("'<<'", "q")
    assert {k: v for k, v in values_of(plain).value.items() if k != "e"} == {
        k: v for k, v in yaml.safe_load(plain).items() if k != "e"
    }


def test_byte_order_mark_and_windows_lines_are_read(own: None, tmp_path: Path) -> None:
    """A recipe from an editor that writes a BOM and CRLF is the same recipe, with the same lines."""
    (tmp_path / "plain.yaml").write_text(FULL)
    (tmp_path / "dos.yaml").write_bytes(b"\xef\xbb\xbf" + FULL.replace("\n", "\r\n").encode())
    dos = load(tmp_path / "dos.yaml", env={})
    assert dataclasses.replace(dos, path=f"{tmp_path}/plain.yaml") == load(tmp_path / "plain.yaml", env={})


def test_columns_are_those_of_the_newest_layer_and_of_named_steps(loaded: Callable[..., Recipe]) -> None:
    """Every column of the documents can be read first; a step's columns after it, by name or by step."""
    every = ", ".join(DOCUMENTS.names)
    head = FULL[: FULL.index("steps:")]
    assert loaded(f"{head}steps:\n  - needs: {{columns: [{every}]}}\n")
    after = f"{head}steps:\n  - pairs\n  - needs: {{columns: [cluster, pairs.cluster]}}\n"
    assert loaded(after)
    with pytest.raises(UserError, match=r"clean\.text"):
        loaded(after.replace("pairs.cluster", "clean.text"))


def test_stage_modules_say_what_they_are(own: None) -> None:
    """Kind, columns and models of a stage are found whether it has constants or functions of its config."""
    found = {name: stage_of(f"own.{name}") for name in ("clean", "pairs", "trainer", "needs", "writes")}
    assert [stage.kind for stage in found.values()] == ["map", "exchange", "fit", "map", "map"]
    two = found["needs"].config(columns=("a", "b.c"))
    assert found["needs"].reads_of(two) == ("a", "b.c")
    assert found["writes"].schema_of(found["writes"].config(columns=("a", "b"))).names == ["a", "b"]
    assert found["trainer"].schema_of(found["trainer"].config()).names == []
    assert found["clean"].reads_of(found["clean"].config()) == ("text",)
    stage = stage_of("own.user_of_model")
    assert stage.uses_of(stage.config()) == ("trainer",)
    for name in ("no_stage", "no_verb", "of_another_type"):
        with pytest.raises(NotAStage):
            stage_of(f"own.{name}")


def test_custom_reader(loaded: Callable[..., Recipe]) -> None:
    """A format may be the import path of a module that reads; a module that does not is refused."""
    text = FULL.replace("format: jsonl", "format: own.lines_reader")
    assert loaded(text).sources["wiki"].module == "own.lines_reader"
    with pytest.raises(UserError, match=r"own\.clean is not a format: it is not a Reader"):
        loaded(FULL.replace("format: jsonl", "format: own.clean"))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cuts=st.lists(st.tuples(st.integers(0, len(FULL)), st.integers(0, 6)), min_size=1, max_size=3),
    put=st.sampled_from(
        [*"{}[]:,-&*!|>'\"%@#\n\t ~$", "${X}", "<<: *a", "&a ", "null", "1.5", "!!str ", "\x07", "\\0"]
    ),
)
def test_no_text_crashes_the_loader(loaded: Callable[..., Recipe], cuts: list[tuple[int, int]], put: str) -> None:
    """A recipe with anything removed or inserted is loaded, or refused with a file and a line: nothing else happens."""
    text = FULL
    for at, length in cuts:
        text = text[:at] + put + text[at + length :]
    message = ""
    try:
        assert loaded(text).routes
    except UserError as error:
        message = str(error)
    assert all(re.match(r"\S+/r\.yaml(:\d+)?: \S|\.\.\. and |$", line) for line in message.split("\n"))
