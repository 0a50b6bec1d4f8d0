"""Every mistake in a recipe is reported with its file, its line and its fix, before any work."""

import importlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill.errors import UserError
from gristmill.printable import printable
from gristmill.recipe.checks.mistakes import MOST_SHOWN
from gristmill.recipe.load import load
from gristmill.recipe.model import Recipe
from gristmill.recipe.settings import all_entries
from gristmill.recipe.stage_module import Unfit, find_stage, known_formats

TOP = "recipe: demo\nsources:\n  a: {kind: web, read: {format: lines, paths: [a.txt]}}\n"
SOURCE = "recipe: demo\nsteps: []\nsources:\n"
"""Three lines: what a case adds begins on line 4."""
STEPS = TOP + "steps:\n"
"""Four lines: what a case adds begins on line 5."""


def read(fields: str) -> str:
    """A recipe whose source has `fields` under `read`, one per line from line 6."""
    return SOURCE + "  a:\n    read:\n" + "".join(f"      {line}\n" for line in fields.split("\n")) + "    kind: web\n"


CASES: dict[str, tuple[str, int, list[str]]] = {
    # The file as YAML.
    "not a mapping": ("- recipe: demo\n", 1, ["mapping with recipe, sources and steps", "not a list"]),
    "only text": ("\nhello\n", 2, ["not 'hello'"]),
    "unclosed bracket": ("recipe: demo\nsteps: [a, b\nseed: 3\n", 3, ["column 5", "bracket opens on line 2"]),
    "bracket open to the end": ("recipe: demo\nsteps: [a,\n  b\n", 2, ["opens here", "not closed"]),
    "quote open to the end": ("recipe: 'demo\nsteps: []\n", 1, ["opens here", "not closed"]),
    "quote closed on its line": ("paths: ['in/a, 'in/b']\n", 1, ["column 17", "quote is missing", "too many"]),
    "apostrophe": ("recipe: 'don't'\nseed: 3\n", 1, ["column 14", "quote is missing, or there is one too many"]),
    "backslash": ('store: "C:\\data"\n', 1, ["column 12", "double quotes", "Use single quotes"]),
    "text of two lines before a fault": ("a: 'two\n  lines'\nb: [c\nd: 3\n", 4, ["bracket opens on line 3"]),
    "key without a colon": ("recipe: demo\nsteps\nseed: 3\n", 2, ["no value", "colon"]),
    "first line without a colon": ("recipe docs\nsources:\n  a: {}\n", 1, ["no colon", "a name, a colon and a value"]),
    "step without a colon": (STEPS + "  - near_dedup\n      threshold: 0.8\n", 5, ["no colon"]),
    "bad indentation": ("recipe: demo\nsteps:\n    - a\n  - b\n", 4, ["column 3", "does not fit", "indentation"]),
    "character of no meaning": ("recipe: @demo\n", 1, ["column 9", "not YAML", "'@'"]),
    "tab": ("recipe: demo\nsources:\n\ta: {}\n", 3, ["tab", "spaces"]),
    "tab after spaces": ("recipe: demo\nsources:\n  a:\n  \tkind: web\n", 4, ["tab", "spaces"]),
    "colon in text": ("recipe: demo: again\n", 1, ["quotes"]),
    "unquoted star": (TOP.replace("[a.txt]", "[*.gz]"), 3, ["quotes", "'*.gz'"]),
    "unquoted variable in flow": (TOP.replace("[a.txt]", "[${DATA}/a]"), 3, ['"${NAME}"']),
    "undefined alias": ("recipe: demo\nsources: *common\n", 2, ["alias", "common", "earlier"]),
    "second document": (TOP + "steps: []\n---\nrecipe: two\n", 5, ["second document", "---"]),
    "control character": ("recipe: demo\nseed: \x07\n", 2, ["U+0007"]),
    "duplicate key": (TOP + "steps: []\nseed: 1\nseed: 2\n", 6, ["seed is written twice", "line 5"]),
    "duplicate key inside": (
        SOURCE + "  a:\n    kind: web\n    read: {format: lines, paths: [x]}\n    kind: text\n",
        7,
        ["sources.a.kind is written twice", "line 5"],
    ),
    "duplicate merge": (
        STEPS + "  - clean: &c {seed: 1}\n  - clean: {<<: *c, <<: *c, seed: 2}\n",
        6,
        ["<< is written twice"],
    ),
    "merge of a list": (STEPS + "  - clean: {<<: [1, 2]}\n", 5, ["can only merge mappings", "<<: *name"]),
    "key that is a list": (TOP + "steps: []\n? [a, b]\n: 1\n", 5, ["key that is not text"]),
    "tag": (
        TOP + "steps: []\nseed: !!python/object:os.system 1\n",
        5,
        ["seed has the tag", "!!python/object"],
    ),
    "alias of its holder": (STEPS + "  - clean: {rules: &me [*me]}\n", 5, ["alias of a value that contains it"]),
    "nul in a path": (read('format: lines\npaths: ["a\\0b"]'), 7, ["sources.a.read.paths[0]", "U+0000"]),
    # The top.
    "unknown field, near match": (
        TOP + "steps: []\nsede: 3\n",
        5,
        ["sede is not a field", "Did you mean seed?"],
    ),
    "unknown field, list": (
        TOP + "steps: []\nflavour: {}\n",
        5,
        ["Fields: recipe, seed, store, strict, accept, sources"],
    ),
    "no recipe": (
        TOP.replace("recipe: demo\n", "") + "steps: []\n",
        1,
        ["recipe is missing", "name of the corpus"],
    ),
    "no sources": ("recipe: demo\nsteps: []\n", 1, ["sources is missing", "Add it"]),
    "no steps": (TOP, 1, ["steps is missing", "Add it"]),
    "seed is text": (TOP + "steps: []\nseed: abc\n", 5, ["seed must be a whole number, not 'abc'"]),
    "a tokenizer by its name on a hub": (
        TOP + "steps: []\ntokenizer: {file: some-lab/tokenizer-8B}\n",
        5,
        ["Tokenizers are not downloaded from a hub"],
    ),
    "seed is negative": (TOP + "steps: []\nseed: -1\n", 5, ["seed must be at least 0, not -1"]),
    "seed is true": (TOP + "steps: []\nseed: true\n", 5, ["seed must be a number, not true"]),
    "seed is a fraction": (TOP + "steps: []\nseed: 1.5\n", 5, ["seed must be a whole number, not 1.5"]),
    "strict is a word": (TOP + "steps: []\nstrict: yes\n", 5, ["strict must be true or false, not 'yes'"]),
    "strict is a number": (TOP + "steps: []\nstrict: 1\n", 5, ["strict must be true or false, not 1"]),
    "recipe is a number": (TOP.replace("demo", "2026.11") + "steps: []\n", 1, ["must be text", "in quotes"]),
    "recipe is no file name": (
        TOP.replace("demo", "../x") + "steps: []\n",
        1,
        ["'../x'", "file names", "A-Z"],
    ),
    "sources is a list": (
        "recipe: demo\nsteps: []\nsources:\n  - a\n",
        4,
        ["sources must be a mapping", "not a list"],
    ),
    "sources is empty": ("recipe: demo\nsteps: []\nsources: {}\n", 3, ["sources is empty"]),
    "steps is text": (TOP + "steps: clean\n", 4, ["steps must be a list or a mapping", "not 'clean'"]),
    "steps is nothing": (TOP + "steps:\n", 4, ["steps must be a list or a mapping", "not nothing"]),
    "store is empty": (TOP + "steps: []\nstore: ''\n", 5, ["store: the path is empty"]),
    "store has no package": (TOP + "steps: []\nstore: abfs://b/x\n", 5, ["store", "adlfs"]),
    "store has unknown scheme": (
        TOP + "steps: []\nstore: memry://x\n",
        5,
        ["memry://", "Did you mean memory://?"],
    ),
    "store with one slash": (TOP + "steps: []\nstore: s3:/bucket/x\n", 5, ["Write s3:// with two slashes"]),
    "step of Python's own": (TOP + "steps: [idlelib.idle.x]\n", 4, ["idlelib.idle.x is not a step"]),
    "store is a file": (TOP + "steps: []\nstore: r.yaml\n", 5, ["r.yaml", "a store is a folder"]),
    # Variables.
    "variable not set": (
        TOP + "steps: []\nstore: ${MISSING}/x\n",
        5,
        ["store: ", "MISSING is not set", ":-default"],
    ),
    "variable not closed": (TOP + "steps: []\nstore: ${HOME\n", 5, ["store: ", "closing brace"]),
    "variable without a name": (
        TOP + "steps: []\nstore: '${1x}'\n",
        5,
        ["${1x}", "does not name a variable"],
    ),
    # Sources.
    "source is text": (SOURCE + "  a: a.txt\n", 4, ["sources.a must be a mapping with kind and read"]),
    "source name": (
        SOURCE + "  'a/b': {kind: web, read: {format: lines, paths: [x]}}\n",
        4,
        ["'a/b'", "file names"],
    ),
    "sources that differ in case": (
        SOURCE + "".join(f"  {name}: {{kind: web, read: {{format: lines, paths: [x]}}}}\n" for name in ("Web", "web")),
        5,
        ["sources.web differs from Web only in case", "Rename one"],
    ),
    "tiers that differ in case": (
        SOURCE + "  a: {kind: web, read: {format: lines, paths: [x]}, tier: {\n    A: text_bytes > 9,\n    a: else}}\n",
        4,
        ["sources.a.tier", "two tiers differ only in case"],
    ),
    "source called all": (
        SOURCE + "  all: {kind: web, read: {format: lines, paths: [x]}}\n",
        4,
        ["'all'", "another"],
    ),
    "kind called all": (
        SOURCE + "  a: {kind: all, read: {format: lines, paths: [x]}}\n",
        4,
        ["sources.a.kind", "'all'"],
    ),
    "no read": (SOURCE + "  a:\n    kind: web\n", 4, ["sources.a.read is missing"]),
    "no kind": (SOURCE + "  a:\n    read: {format: lines, paths: [x]}\n", 4, ["sources.a.kind is missing"]),
    "field of read beside it": (
        SOURCE + "  a:\n    kind: web\n    part_bytes: 3\n    read: {format: lines, paths: [x]}\n",
        6,
        ["sources.a.part_bytes is not a field", "under read"],
    ),
    "field of the source in read": (
        read("format: lines\npaths: [x]\ntier: A"),
        8,
        ["read.tier", "one level up"],
    ),
    "unknown field of a source": (
        SOURCE + "  a: {kind: web, licence: MIT, read: {format: lines, paths: [x]}}\n",
        4,
        [
            "sources.a.licence is not a field",
            "Did you mean license?",
            "Fields: kind, read, license, domain, tier, weight.",
        ],
    ),
    "no format": (read("paths: [x]"), 5, ["sources.a.read.format is missing"]),
    "unknown format": (
        read("paths: [x]\nformat: jsnol"),
        7,
        ["jsnol is not a format", "Did you mean jsonl?", "lines"],
    ),
    "format is a number": (read("paths: [x]\nformat: 3"), 7, ["sources.a.read.format must be text"]),
    "no paths": (read("format: lines"), 5, ["sources.a.read.paths is missing"]),
    "paths empty": (read("format: lines\npaths: []"), 7, ["sources.a.read.paths is empty"]),
    "paths is text": (
        read("format: lines\npaths: x.txt"),
        7,
        ["paths must be a list, not 'x.txt'", "[x.txt]"],
    ),
    "path is a number": (
        read("format: lines\npaths:\n  - x\n  - 2024"),
        9,
        ["paths[1] must be text", "in quotes"],
    ),
    "path is empty": (read("format: lines\npaths: ['']"), 7, ["paths[0]: the path is empty"]),
    "path twice": (read("format: lines\npaths:\n  - x/../y\n  - y"), 9, ["paths[1]", "twice"]),
    "path without package": (
        read("format: lines\npaths:\n  - abfs://b/*.gz"),
        8,
        ["paths[0]", "adlfs"],
    ),
    "typo in read": (
        read("formt: lines\npaths: [x]\nformat: lines"),
        6,
        [
            "sources.a.read.formt is not a field. Did you mean format? Fields: format, paths, exclude,",
            "field_text",
        ],
    ),
    "typo in the reader's own": (
        read("format: lines\npaths: [x]\nfeild_text: t"),
        8,
        ["Did you mean field_text?"],
    ),
    "snapshot is no regex": (
        read("format: lines\npaths: [x]\nsnapshot: 'a/(b'"),
        8,
        ["snapshot", "not a regular"],
    ),
    "snapshot with two groups": (
        read("format: lines\npaths: [x]\nsnapshot: '(a)/(b)'"),
        8,
        ["2 groups", "(?:"],
    ),
    "snapshot with no group": (
        read("format: lines\npaths: [x]\nsnapshot: 'a/[^/]+/'"),
        8,
        ["no groups", "( )"],
    ),
    "bad size": (
        read("format: lines\npaths: [x]\npart_bytes: 64XB"),
        8,
        ["part_bytes", "'64XB' is not a size", "MiB"],
    ),
    "bad size in the reader": (
        read("format: lines\npaths: [x]\nmax_record_bytes: 3 apples"),
        8,
        ["is not a size"],
    ),
    "size of nothing": (
        read("format: lines\npaths: [x]\npart_bytes: 0"),
        8,
        ["part_bytes must be at least 1, not 0"],
    ),
    # Steps.
    "unknown step": (
        STEPS + "  - clean\n  - claen: {min_words: 3}\n",
        6,
        ["claen is not a step", "mean clean?", "pairs"],
    ),
    "unknown step, a string": (STEPS + "  - clean\n  - claen\n", 6, ["claen is not a step"]),
    "step with two keys": (
        STEPS + "  - clean: {}\n    pairs: {}\n",
        6,
        ["two keys, clean and pairs", "dash"],
    ),
    "step not indented": (
        STEPS + "  - clean:\n    min_words: 3\n",
        6,
        ["min_words is a field of clean, indent it further"],
    ),
    "step is a list": (STEPS + "  - clean\n  - [pairs]\n", 6, ["must be a step, not a list"]),
    "step is a number": (STEPS + "  - 3\n", 5, ["must be a step, not 3"]),
    "step is nothing": (STEPS + "  -\n", 5, ["must be a step, not nothing"]),
    "fields are text": (STEPS + "  - clean: fast\n", 5, ["clean must be a mapping of fields, not 'fast'"]),
    "list is text": (STEPS + "  all: clean\n", 5, ["steps.all must be a list of steps, not 'clean'"]),
    "unknown field of a step": (
        STEPS + "  web:\n    - clean:\n        tool: fast\n        min_wrods: 3\n",
        8,
        ["steps.web.clean.min_wrods is not a field. Did you mean min_words? Fields: min_words, max_ratio, tool,"],
    ),
    "unknown field inside a field": (
        STEPS + "  - clean:\n      robots:\n        agnet: x\n",
        7,
        ["steps.clean.robots.agnet is not a field. Did you mean agent? Fields: agent, depth."],
    ),
    "missing field of a step": (
        STEPS + "  - clean\n  - listed\n",
        6,
        ["listed.blocked is missing", "one a line"],
    ),
    "value too large": (
        STEPS + "  - clean: {\n      max_ratio: 1.5}\n",
        6,
        ["max_ratio must be at most 1", "not 1.5"],
    ),
    "value too small": (
        STEPS + "  - clean: {max_ratio: 0}\n",
        5,
        ["clean.max_ratio must be above 0", "not 0"],
    ),
    "choice": (
        STEPS + "  - clean: {tool: fats}\n",
        5,
        ["must be one of fast, careful, not 'fats'. Did you mean fast?"],
    ),
    "true for a number": (
        STEPS + "  - clean: {keep: {en: true}}\n",
        5,
        ["clean.keep.en must be a number, not true"],
    ),
    "nan for text": (
        TOP.replace("kind: web", "kind: .nan") + "steps: []\n",
        3,
        ["sources.a.kind must be text, not nan"],
    ),
    "nan": (STEPS + "  - clean: {keep: {en: .nan}}\n", 5, ["clean.keep.en must be a number, not nan"]),
    "text in a list of numbers": (
        STEPS + "  - clean:\n      limit: [1,\n        x]\n",
        7,
        ["limit[1] must be a whole"],
    ),
    "either a number or a list": (
        STEPS + "  - clean: {limit: x}\n",
        5,
        ["a whole number or a list, not 'x'"],
    ),
    "number for a rule": (
        STEPS + "  - clean: {rules: [c4, 5]}\n",
        5,
        ["clean.rules[1] must be text, not 5", "quotes"],
    ),
    "file missing": (
        STEPS + "  - listed:\n      blocked: no/such.txt\n",
        6,
        ["listed.blocked", "no/such.txt", "exist"],
    ),
    "file in a list missing": (
        STEPS + "  - listed:\n      blocked: r.yaml\n      lists:\n        - r.yaml\n        - nope\n",
        9,
        ["steps.listed.lists[1]", "nope", "does not exist"],
    ),
    "optional file missing": (
        STEPS + "  - listed: {blocked: r.yaml, more: nope}\n",
        5,
        ["listed.more", "not exist"],
    ),
    "file in a mapping missing": (
        STEPS + "  - listed: {blocked: r.yaml, named: {x: no}}\n",
        5,
        ["named.x", "not exist"],
    ),
    "file at an unknown scheme": (
        STEPS + "  - listed: {blocked: 'qqq://x'}\n",
        5,
        ["listed.blocked", "qqq://"],
    ),
    "module not there": (STEPS + "  - nowhere.clean\n", 5, ["no module nowhere", "PYTHONPATH"]),
    "module not in package": (STEPS + "  - own.cleen: {}\n", 5, ["no module own.cleen", "PYTHONPATH"]),
    "module wants a package": (STEPS + "  - own.wants_package\n", 5, ["Install no_such_package_at_all"]),
    "module raises": (
        STEPS + "  - own.raises\n",
        5,
        ["own.raises cannot be imported", "RuntimeError: the moon is full"],
    ),
    "module without a stage": (
        STEPS + "  - own.no_stage\n",
        5,
        ["own.no_stage is not a step: it declares no stage. End it with STAGE = Map(..., apply=apply)"],
    ),
    "module without a verb": (STEPS + "  - own.no_verb\n", 5, ["End it with STAGE = Reader, Map, Exchange, Fit"]),
    "emit without reduce": (STEPS + "  - own.half_exchange\n", 5, ["Exchange needs ", "reduce"]),
    "a stage of another type": (STEPS + "  - own.of_another_type\n", 5, ["its STAGE is of type int"]),
    "config that takes anything": (STEPS + "  - own.loose_config\n", 5, ["config is not a StageConfig"]),
    "import path with a dash": (STEPS + "  - own.my-step\n", 5, ["own.my-step is not a step"]),
    # Routes.
    "steps for no kind": (
        STEPS + "  all: []\n  wbe: [clean]\n",
        6,
        ["steps.wbe", "mean web?", "Kinds: web.", "Sources: a."],
    ),
    "name that is a kind too": (
        SOURCE.replace("steps: []", "steps: {web: [clean]}")
        + "  web: {kind: text, read: {format: lines, paths: [x]}}\n"
        "  b: {kind: web, read: {format: lines, paths: [x]}}\n",
        2,
        ["steps.web is the name of both a source and a kind", "Rename"],
    ),
    "list that no source uses": (
        STEPS + "  a: [clean]\n  web: [pairs]\n",
        6,
        ["steps.web is used by no source", "(a)"],
    ),
    "kind with a typo": (
        SOURCE.replace("steps: []", "steps: {text: [clean]}") + "  b: {kind: text, read: {format: lines, paths: [x]}}\n"
        "  a: {kind: txet, read: {format: lines, paths: [x]}}\n",
        5,
        ["sources.a.kind is 'txet'", "Did you mean text?", "steps.txet: []"],
    ),
    "kind with a typo, of the only source": (
        SOURCE.replace("steps: []", "steps: {code: [clean], all: [needs: {columns: [clean.clean_ratio]}]}")
        + "  a:\n    kind: cod\n    read: {format: lines, paths: [x]}\n",
        5,
        ["sources.a.kind is 'cod', for which steps has no list", "Did you mean code? If not, add steps.cod: []."],
    ),
    "kind with a typo, of a kind of one's own": (
        SOURCE.replace("steps: []", "steps: {minutes: [clean]}")
        + "  a: {kind: minuets, read: {format: lines, paths: [x]}}\n",
        4,
        ["sources.a.kind is 'minuets'", "Did you mean minutes?"],
    ),
    "list with a typo, of a kind of several sources": (
        SOURCE.replace("steps: []", "steps: {minuets: [clean]}")
        + "  a: {kind: minutes, read: {format: lines, paths: [x]}}\n"
        "  b: {kind: minutes, read: {format: lines, paths: [x]}}\n",
        2,
        ["steps.minuets is neither a kind", "Did you mean minutes?"],
    ),
    "same step again": (
        STEPS + "  - clean: {seed: 1}\n  - clean: {seed: 1}\n",
        6,
        ["all/clean_2 repeats all/clean"],
    ),
    "column that nobody has": (
        STEPS + "  web:\n    - needs: {columns: [text, txet]}\n",
        6,
        ["web/needs reads the column txet", "Did you mean text? (source: a)"],
    ),
    "column that comes later": (
        STEPS + "  - needs: {columns: [clean_ratio]}\n  - clean\n",
        5,
        ["all/needs reads the column clean_ratio", "Move all/clean, which writes it, above"],
    ),
    "many columns of a step that is not there": (
        STEPS + "  - needs: {columns: [pairs.x, pairs.y, pairs.z]}\n",
        5,
        ["all/needs reads pairs.x and 2 more of it", "no step pairs comes before it", "Add - pairs to the steps"],
    ),
    "column of a step that is not there": (
        STEPS + "  - needs: {columns: [pairs.x]}\n",
        5,
        ["pairs.x", "Add - pairs"],
    ),
    "column that its step does not write": (
        STEPS + "  - pairs\n  - needs: {columns: [pairs.clutser]}\n",
        6,
        ["clutser, which pairs does not write", "Did you mean cluster?"],
    ),
    "models of one name for a step that is shared": (
        "recipe: demo\nsources:\n"
        "  a: {kind: web, read: {format: lines, paths: [x]}}\n  b: {kind: code, read: {format: lines, paths: [x]}}\n"
        "steps:\n  web: [trainer]\n  code: [trainer]\n  all: [pairs_of_model]\n",
        8,
        ["all/pairs_of_model uses one model of a step trainer", "web/trainer (source a), code/trainer (source b)"],
    ),
    "similarity that no comparison takes": (
        STEPS + "  - gristmill.stages.dedup.near_dedup: {verify_jaccard: 0.8000000001}\n",
        5,
        ["verify_jaccard", "at most nine decimals"],
    ),
    "model without its step": (
        STEPS + "  - user_of_model\n  - trainer\n",
        5,
        ["model of a step trainer", "- trainer"],
    ),
}


def mistakes_of(loaded: Callable[..., Recipe], text: str) -> str:
    with pytest.raises(UserError) as raised:
        loaded(text)
    return str(raised.value)


@pytest.mark.parametrize("case", CASES)
def test_mistake_is_reported_with_its_line_and_its_fix(
    case: str, loaded: Callable[..., Recipe], tmp_path: Path
) -> None:
    """Each mistake gives one message that begins with the file and the line of the fault and names the fix."""
    text, line, fragments = CASES[case]
    message = mistakes_of(loaded, text)
    assert message.startswith(f"{tmp_path}/recipes/r.yaml:{line}: "), message
    assert "\n" not in message, f"one mistake, several messages:\n{message}"
    for fragment in fragments:
        assert fragment in message
    assert message.endswith((".", "?", ")")) or " -m pip install " in message, message


@pytest.mark.parametrize(
    ("value", "meant"), [("60", "0.6"), ("7", None), ("12.5", "0.125"), ("100", "1"), ("101", None), ("1.2", None)]
)
def test_a_percentage_where_a_share_belongs(value: str, meant: str | None, loaded: Callable[..., Recipe]) -> None:
    """The message suggests a share if a hundredth of the value is within bounds."""
    with pytest.raises(UserError, match=r"max_ratio must be at most 1") as text_shown:
        loaded(STEPS + f"  - clean: {{max_ratio: {value}}}\n")
    assert str(text_shown.value).endswith("." if meant is None else f" Did you mean {meant}?")


def test_every_share_begins_at_0() -> None:
    """So a hundredth of a percentage is always within bounds, and suggesting it is never wrong."""
    for entry in all_entries():
        for setting in entry.settings:
            assert not re.search(r"(from|above) (?!0\b)\S+ (to|below) 1\b(?![.,])", setting.type), setting


def test_path_is_shown_as_it_was_given(own: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message names the file as the user did, not by its absolute path."""
    monkeypatch.chdir(tmp_path)
    Path("r.yaml").write_text(TOP + "steps: []\nsede: 1\n")
    with pytest.raises(UserError, match=r"^\./r\.yaml:5: sede is"):
        load("./r.yaml")


def test_file_that_is_not_a_recipe(tmp_path: Path) -> None:
    """A path without a readable text file is reported as such, with what to do."""
    (tmp_path / "empty.yaml").touch()
    (tmp_path / "comment.yaml").write_text("# nothing yet\n")
    (tmp_path / "binary.yaml").write_bytes(b"recipe: x\n\x1f\x8b\xff\xfe")
    (tmp_path / "huge.yaml").write_bytes(b"#" * (4 * 2**20 + 1))
    expected = {
        "missing.yaml": "there is no such file",
        ".": "this is a folder",
        "empty.yaml": "the recipe is empty. Run gristmill init",
        "comment.yaml": "the recipe is empty",
        "binary.yaml": "is not UTF-8",
        "huge.yaml": "larger than 4 MiB",
        "nul\0name": "cannot be read",
    }
    for name, words in expected.items():
        path = f"{tmp_path}/{name}"
        with pytest.raises(UserError) as raised:
            load(path)
        assert str(raised.value).startswith(f"{printable(path)}:")
        assert words in str(raised.value)
    with pytest.raises(UserError, match=r"binary\.yaml:2: byte 11"):
        load(tmp_path / "binary.yaml")


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file(loaded: Callable[..., Recipe]) -> None:
    """Mistakes of every layer (YAML, variables, fields, stages, routes) come together, sorted by line."""
    text = (
        "recipe: a/b\nseed: x\nstore: ${NOPE}\n"
        "sources:\n  a:\n    kind: web\n    kidn: web\n    read: {format: linse, paths: []}\n"
        "steps:\n  web:\n    - claen\n    - needs: {columns: [y]}\n  txt: []\nsede: 1\nseed: 2\n"
    )
    lines = mistakes_of(loaded, text).split("\n")
    numbers = [int(re.search(r"r\.yaml:(\d+): ", line)[1]) for line in lines]
    assert numbers == [1, 2, 3, 7, 8, 8, 11, 13, 14, 15]


def test_a_mistake_brings_no_others_with_it(loaded: Callable[..., Recipe]) -> None:
    """A step that cannot be loaded is reported alone: what later steps would have read from it is not checked."""
    message = mistakes_of(loaded, STEPS + "  - clean: {min_words: -1}\n  - needs: {columns: [clean_ratio]}\n")
    assert "\n" not in message
    assert "min_words" in message


def test_number_of_mistakes_shown_is_bounded(loaded: Callable[..., Recipe]) -> None:
    """A file with hundreds of mistakes shows the first ones and counts the rest."""
    text = TOP + "steps: []\n" + "".join(f"unknown{i}: 1\n" for i in range(300))
    lines = mistakes_of(loaded, text).split("\n")
    assert len(lines) == MOST_SHOWN + 1
    assert lines[-1] == f"... and {300 - MOST_SHOWN} more mistakes after these."


def test_aliases_that_explode_are_refused(loaded: Callable[..., Recipe]) -> None:
    """Ten lines of aliases of aliases, a billion values, are a mistake and do not fill the memory."""
    rows = ["  - &x0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"]
    rows += [f"  - &x{i} [{', '.join([f'*x{i - 1}'] * 10)}]\n" for i in range(1, 10)]
    assert "aliases expand this file to more than" in mistakes_of(loaded, STEPS + "".join(rows))


def test_depth_is_refused(loaded: Callable[..., Recipe]) -> None:
    """A file nested beyond what can be read is a mistake and not a crash."""
    assert "more than 50 levels deep" in mistakes_of(loaded, "a: " + "[" * 900 + "]" * 900)


def test_a_mistake_in_a_shared_step_is_reported_once_with_its_sources(loaded: Callable[..., Recipe]) -> None:
    """A column that is missing on two routes is one mistake that names both, and not a third source."""
    source = "{{kind: {0}, read: {{format: lines, paths: [x]}}}}"
    text = "recipe: demo\nsources:\n" + "".join(
        f"  {name}: {source.format(kind)}\n" for name, kind in [("a", "web"), ("b", "text"), ("c", "code")]
    )
    message = mistakes_of(loaded, text + "steps:\n  web: [clean]\n  all:\n    - needs: {columns: [clean_ratio]}\n")
    assert "\n" not in message
    assert message.endswith("(sources: b, c)")
    assert "r.yaml:9:" in message


@pytest.mark.parametrize(
    ("store", "words"),
    [("qqq://x", "qqq://"), ("abfs://b", "adlfs"), (" ", "empty"), (__file__, "is a file")],
)
def test_store_of_the_command_line_is_checked(store: str, words: str, loaded: Callable[..., Recipe]) -> None:
    """A store given as an option is refused like the recipe's own, and the message names the option."""
    with pytest.raises(UserError, match=r"^store=") as raised:
        loaded(TOP + "steps: []\n", store=store)
    assert words in str(raised.value)


def test_merged_mistake_has_the_line_where_it_is_written(loaded: Callable[..., Recipe]) -> None:
    """A wrong field from a merge key or an alias is reported where it is written, not where it is used."""
    text = (
        STEPS
        + "  - clean: &c\n      min_words: 3\n      mni_words: 4\n  - pairs\n  - clean:\n      <<: *c\n      seed: 4\n"
    )
    message = mistakes_of(loaded, text)
    assert "r.yaml:7: steps.clean.mni_words" in message
    assert "\n" not in message


def test_alias_of_a_scalar_is_reported_where_it_is_used(loaded: Callable[..., Recipe]) -> None:
    """A value that is right where it is written and wrong where an alias inserts it is reported at the alias."""
    message = mistakes_of(loaded, TOP.replace("demo", "&name demo") + "steps: []\nseed: *name\n")
    assert "r.yaml:5: seed must be a whole number, not 'demo'" in message


@pytest.mark.parametrize(
    ("called", "name"), [("ebook", "epub"), ("Word", "office"), ("Wikipedia", "mediawiki"), ("mails", "mbox")]
)
def test_what_people_call_a_format_is_understood(tmp_path, called, name):
    """Letters alone would suggest notebook for ebook."""
    with pytest.raises(Unfit, match=f"is not a format. In Gristmill this is {name}\\."):
        find_stage("format", called, known_formats(), str(tmp_path))


@pytest.mark.parametrize(
    ("suffix", "name"),
    [
        (".docx", "office"),
        ("odt", "office"),
        ("MD", "text"),
        ("tex", "latex"),
        ("ipynb", "notebook"),
        ("srt", "subtitles"),
        ("vtt", "subtitles"),
        ("xml.bz2", "mediawiki"),
    ],
)
def test_a_suffix_in_place_of_a_format_names_the_format_that_reads_it(tmp_path, suffix, name):
    found = re.escape(f"Did you mean {name}, which reads files named *.{suffix.lower().strip('.')}?")
    with pytest.raises(Unfit, match=found):
        find_stage("format", suffix, known_formats(), str(tmp_path))
    reader = importlib.import_module(known_formats()[name]).STAGE
    assert reader.wanted is None or reader.wanted(f"a.{suffix.strip('.')}", reader.config())
