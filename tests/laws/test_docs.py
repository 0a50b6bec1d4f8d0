"""The documentation is true: commands run, recipes load, files exist."""

import importlib.util
import io
import os
import re
import shlex
import tokenize
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import yaml
from bench.__main__ import names as benches
from typer.main import get_command

from gristmill.cli.main import make_app
from gristmill.cli.run.steps import page as page_of
from gristmill.installed import COMMANDS, PACKAGES
from gristmill.recipe.fields import RecipeFields
from gristmill.recipe.load import load
from gristmill.recipe.sections.mix import MixFields
from gristmill.recipe.sections.shards import ShardsFields
from gristmill.recipe.settings import all_entries

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


def blocks(language):
    for page in PAGES:
        if page.name == "tutorial.md":  # test_tutorial.py runs its recipes with the files that its script writes
            continue
        for found in re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.S):
            yield pytest.param(page, found, id=f"{page.name}-{found[:30].splitlines()[0]}")


@pytest.mark.parametrize(("page", "text"), list(blocks("yaml")))
def test_every_whole_recipe_in_the_docs_loads(page, text, tmp_path, forgotten):
    """A recipe that a reader copies is valid. Fragments (whose first line is not `recipe:`) are skipped."""
    if not text.startswith("recipe:"):
        pytest.skip("a fragment")
    for name, body in re.findall(r"^`(?:[\w]+/)?(\w+\.\w+)`:\n\n```\w+\n(.*?)^```", page.read_text(), re.M | re.S):
        (tmp_path / name).write_text(body)  # files that the page shows with the recipe: custom steps, lists
    (tmp_path / "recipe.yaml").write_text(text)
    load(tmp_path / "recipe.yaml")


entries = cache(all_entries)


@cache
def command_line():
    """All commands: they take 50 ms to put together, and 200 tests read them."""
    return get_command(make_app())


def commands():
    names = set(command_line().commands)
    for page in PAGES:
        for line in page.read_text().splitlines():
            found = re.match(r"\s+(?:\.venv/bin/)?gristmill (.*?)(?:\s{2,}#.*)?$", line)
            if found and found[1].split()[0] in names:
                yield pytest.param(found[1], id=found[1])


@pytest.mark.parametrize("command", list(commands()))
def test_every_command_in_the_docs_parses(command):
    """The commands and options that the docs show exist."""
    found, arguments = command_line(), shlex.split(command)
    while hasattr(found, "commands"):
        name, found, arguments = found.resolve_command(found.make_context("gristmill", list(arguments)), arguments)
    found.make_context(name, arguments)


def test_the_index_links_every_page():
    """Readers do not find a page that the index does not link."""
    folder = ROOT / "docs"
    index = (folder / "index.md").read_text()
    assert [page.name for page in PAGES if page.parent == folder and f"({page.name})" not in index] == ["index.md"]


def test_the_readme_is_one_page():
    """The README has about 100 lines, none over 120 columns."""
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 115
    assert max(map(len, lines)) <= 120


def test_the_page_of_all_settings_is_up_to_date():
    """docs/steps.md matches the configs. Regenerate it with: gristmill steps --markdown > docs/steps.md"""
    assert (ROOT / "docs" / "steps.md").read_text() == page_of(entries()) + "\n"


def test_every_setting_is_described():
    """Every setting has a name, a type, a default, and a sentence with the unit."""
    for entry in entries():
        assert entry.summary, entry.name
        for setting in entry.settings:
            assert setting.meaning, f"{entry.name}.{setting.name} has no docstring"


@pytest.mark.parametrize(("name", "model"), [("shards", ShardsFields), ("mix", MixFields)])
def test_the_pages_list_exactly_the_allowed_fields(name, model):
    """An error lists every existing field, and so do its page and the page of all settings."""
    (entry,) = (one for one in entries() if one.name == name and one.kind == "section")
    assert {setting.name for setting in entry.settings if "." not in setting.name} == set(model.model_fields)
    page = (ROOT / "docs" / f"{name}.md").read_text()
    assert [field for field in model.model_fields if f"| `{field}` |" not in page] == []


def test_the_files_of_a_trained_tokenizer_are_named():
    """The docs and the help name the files that `--out` writes."""
    assert "`tokenizer.tiktoken.json`" in (ROOT / "docs" / "tokenizer.md").read_text()


def test_built_in_exceptions_of_thresholds_are_documented():
    """A rule that is off by default may still drop files in the languages that it was published for."""
    settings = {one.name: one for entry in entries() if entry.name == "heuristics" for one in entry.settings}
    comments = settings["code.max_comments_share"]
    assert comments.default == "none"
    assert "Built-in exceptions: 0.8 for python, java, javascript." in comments.meaning
    assert 'docs/rules.md, "Published exceptions"' in settings["code.by_language"].meaning
    assert "Built-in" not in settings["code.min_alnum_share"].meaning
    assert "Published exceptions:" in (ROOT / "docs" / "rules.md").read_text()


def test_files_that_the_docs_link_to_exist():
    """No dead links inside the project."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def heading_anchors(text):
    """Anchors as GitHub and the site generate them: lower case, no punctuation, hyphens for spaces."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-"))
    return found


def test_headings_that_the_docs_link_to_exist():
    """No dead anchors, within a page or between pages."""
    links = 0
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
            linked = page.parent / target if target else page
            assert anchor in heading_anchors(linked.read_text()), f"{page.name} links to {target}#{anchor}"
            links += 1
    assert links > 10


def site_module():
    """docs/site.py, which belongs to no package."""
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "docs" / "site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_menu_of_the_site_has_every_page_once():
    """The builder checks links but not the menu: a page that is missing there could only be found by search."""
    menu = []

    def walk(entry):
        for below in entry if isinstance(entry, list) else entry.values() if isinstance(entry, dict) else ():
            walk(below)
        if isinstance(entry, str):
            menu.append(entry)

    settings = (ROOT / "mkdocs.yml").read_text().replace("!!python/object/apply:", "")
    walk(yaml.safe_load(re.sub(r"slugify: .*", "", settings))["nav"])
    assert sorted(menu) == sorted(site_module().pages())


def test_pages_of_the_site_link_to_pages_of_the_site():
    """Files outside docs/ that a page links to are on the site; otherwise the link would leave it."""
    site = site_module()
    known = {*site.pages(), *site.OUTSIDE, "demo.svg", *(path.name for path in (ROOT / "docs").glob("*.png"))}
    for name, text in site.pages().items():
        for target in re.findall(r"\]\(([^)#:]+)[)#]", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)):
            path = os.path.normpath(Path(name).parent / target)
            assert path in known, f"{name} links to {target}"


def test_a_list_right_after_a_paragraph_is_a_list_on_the_site():
    """GitHub sees a list right after a paragraph, Python-Markdown only after an empty line; code is not changed."""
    with_lists = site_module().with_lists
    assert with_lists("Two:\n- a\n- b\n  c\n- d") == "Two:\n\n- a\n- b\n  c\n- d"
    assert with_lists("```\nx\n- a\n```\n1. b") == "```\nx\n- a\n```\n\n1. b"


def test_the_site_puts_remarks_above_wide_commands():
    """A remark after its command would be cut off; short blocks and code are not changed."""
    with_remarks, wide = site_module().with_remarks, "w" * 80
    assert with_remarks(f"To run:\n\n    a {wide}  # why\n    b\n\nEnd") == (
        f"To run:\n\n```sh\n# why\na {wide}\n\nb\n```\n\nEnd"
    )
    for text in ("To run:\n\n    a  # why\n\nEnd", f"```\n\n    a {wide}  # why\n\n```"):
        assert with_remarks(text) == text


def test_a_page_that_fetches_from_another_host_is_found(tmp_path):
    """Fonts and scripts from a CDN are found; links to other hosts are only for readers to click."""
    fetched = site_module().fetched
    (tmp_path / "good.html").write_text('<a href="https://a.example">a</a><script src="assets/b.js"></script>')
    assert fetched(tmp_path) == []
    (tmp_path / "bad.html").write_text('<link rel="stylesheet" href="//fonts.example/css">')
    assert fetched(tmp_path) == ['bad.html fetches <link rel="stylesheet" href="//fonts.example/css']


def test_every_command_is_on_the_site():
    """Every command is shown with its help, and every name of the Python API on the site can be imported."""
    site = site_module()
    for name in command_line().commands:
        assert f"\n## gristmill {name}\n" in site.command_page()
    for names in site.API.values():
        for name in names:
            module, _, attribute = name.rpartition(".")
            assert re.search(rf"(?:class|def|import|as|,) {attribute}\b", source_of(module)), name


def source_of(module):
    """The source of a module, without importing it, since it may need an extra."""
    path = ROOT / "src" / Path(*module.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()


def test_the_recipe_page_has_every_field():
    """The page has the fields of the top level; the others are on the page of all settings."""
    page = (ROOT / "docs" / "recipe.md").read_text()
    assert {*re.findall(r"^\| `(\w+)` \|", page.partition("## Which")[0], re.M)} == set(RecipeFields.model_fields)


def test_every_extra_and_package_is_on_the_installation_page():
    """`dev` and `docs` are for contributors."""
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    page = (ROOT / "docs" / "install.md").read_text()
    packages, others = page.partition("## Extras")[::2]
    assert {*re.findall(r"^\| `(\w+)` \|", others, re.M)} == extras - {"dev", "docs"}
    rows = "".join(re.findall(r"^\| (`[^|]*) \|", packages, re.M))
    assert {*re.findall(r"`(\w+)`", rows)} == {path.parent.name for path in ROOT.glob("packages/*/pyproject.toml")}


def test_make_targets_that_the_docs_name_exist():
    """`make demo`, `make test` and the others."""
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for target in re.findall(r"make ([a-z][a-z-]+)\b", page.read_text()):
            if f"make {target}" in ("make demo", "make test", "make bench") or "-" in target:
                assert re.search(rf"^{target}:", makefile, re.M), f"{page.name} names make {target}"


def results_rows():
    """The cells of the first table in bench/RESULTS.md, without its headings in bold."""
    table = (ROOT / "bench" / "RESULTS.md").read_text().partition("## Known misses")[0]
    rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines() if line[:2] == "| "]
    return [cells for cells in rows[1:] if not cells[0].startswith("**")]


def source_of_bench(name):
    """The source of a module of bench/ or of a package's bench/; None if there is none."""
    paths = (folder / f"{name}.py" for folder in (ROOT / "bench", *ROOT.glob("packages/*/bench")))
    return next((path.read_text() for path in paths if path.exists()), None)


OF_PACKAGES = " ".join(PACKAGES[COMMANDS].values()).split()
"""Commands of packages."""


def missing_from(command):
    """The names in a command of the results that the repository does not have."""
    words = shlex.split(command)
    assigned, words = [one for one in words if "=" in one], [one for one in words if "=" not in one and one != "time"]
    if words[:3] == ["python", "-m", "bench"]:
        name, source = words[3], (ROOT / "bench" / "__main__.py").read_text()
    elif words[0] == "python" and (found := re.search(r"\bbench[./](\w+)", " ".join(words))):
        name, source = None, source_of_bench(found[1])
        if source is None:
            return [found[1]]
    elif words[:3] == ["python", "-m", "fuzz"]:
        name, source = None, (ROOT / "fuzz" / "__main__.py").read_text()
    elif words[0] == "make":
        return [] if re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.M) else [words[1]]
    else:
        assert Path(words[0]).name == "gristmill", command
        return [] if words[1] in {*command_line().commands, *OF_PACKAGES} else [words[1]]
    if name and name not in benches() and words[2] == "bench":
        return [name]
    own = source_of_bench(name) if name else ""
    missing = [one for one in assigned if f'"{one.partition("=")[0]}"' not in own]
    return missing + [one for one in words if one.startswith("--") and f'"{one}"' not in source]


def test_every_measurement_names_a_command_that_exists():
    """Each row has a bench with its options and variables, a make target or a command, and a machine and a date."""
    rows = results_rows()
    assert len(rows) > 60
    for cells in rows:
        assert len(cells) == 7, cells
        what, ours, _, _, machine, date, command = cells
        assert all((what, ours)), cells
        assert machine.split(",")[0] in ("ARM", "x86", "server", "H200"), cells
        assert re.fullmatch(r"2\d{3}-\d\d-\d\d", date), cells
        commands = re.findall("`([^`]+)`", command)
        assert commands, cells
        if re.match(r"at `[0-9a-f]{8}`: ", command):  # the bench has left since
            continue
        assert [missing_from(one) for one in commands] == [[]] * len(commands), cells


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("python -m bench lodader", ["lodader"]),
        ("PARTSS=3 python -m bench scale", ["PARTSS=3"]),
        ("python -m bench.decontaminate --megabites 3", ["--megabites"]),
        ("python bench/_directoins.py train", ["_directoins"]),
        ("time make demmo", ["demmo"]),
        ("gristmill funel demo/store@demo", ["funel"]),
    ],
)
def test_a_command_of_the_results_that_does_not_exist_is_found(command, missing):
    """The previous test does not pass by accepting everything."""
    assert missing_from(command) == missing


def test_numbers_of_the_readme_are_in_the_results():
    """The README table has at most eight rows, each with a bench, and no number that RESULTS.md does not have."""
    number = r"(?<![\w.,])\.?\d[\d,.]*(?<![,.])"
    known = {found for cells in results_rows() for cell in cells for found in re.findall(number, cell)}
    table = (ROOT / "README.md").read_text().partition("## Measured")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")][1:]
    assert 4 <= len(rows) <= 8
    for _, name, *cells in rows:
        assert name.strip() in benches()
        assert [found for cell in cells for found in re.findall(number, cell) if found not in known] == [], name


ODD_WORDS = {
    r"told": "the key is told",
    r"whoever": "whoever reads it",
    r"mend(?:s|ed|ing)?": "records are mended",
    r"anew": "written anew",
    r"besides": "eight letters besides",
    r"shall": "readers that shall see it",
    r"of (?:its|their) own": "a group of its own",
    r"by (?:itself|themselves)": "a word by itself",
    r"inside of": "inside of a word",
    r"for want of": "for want of memory",
    r"one behind the other": "documents one behind the other",
    r"(?:behind|beside) (?:it|them|that|all|others)": "the steps behind it",
    r"l(?:ies?|ay) (?:in|on|at|under|behind|beside|within|there|where|apart)": "it lies in a folder",
    r"stands? (?:in|for|at|behind|beside|there|outside|where|as)": "it stands in the recipe",
    r"(?:what|as|is|are|was|were|not|be) asked(?: for)?|asks? for|asked (?:for|of)": "what is asked for",
    r"(?:is|are|was|were) meant": "the host is meant",
    r"as (?:it|they) (?:comes?|stands?|lies?)": "the library as it comes",
    r"in (?:the|its) place of|in its place": "one in its place",
    r"the room": "the room that it needs",
    r"goes? (?:on|by|before) (?:it|them|that|ids?|where|from)": "it goes by ids",
}
"""Words that readers stop at, each with an example. What to write instead: CONTRIBUTING.md."""
BESIDE = re.compile(r"(?:verdict|functions|else of the run) beside it|Beside them is|such as `` beside them", re.I)
"""Where `beside` is the right word."""


def odd_words(markdown):
    """The odd words in the prose of a page; code and command output are not prose."""
    prose = re.sub(
        r"^```.*?^```|^    [^\n]*$|`[^`\n]*`",
        lambda found: "``" if found[0][0] == "`" else "",
        markdown,
        flags=re.M | re.S,
    )
    prose = BESIDE.sub("", " ".join(prose.split()))
    return [
        prose[max(0, found.start() - 30) : found.end() + 20]
        for words in ODD_WORDS
        for found in re.finditer(rf"\b(?:{words})\b", prose, re.I)
    ]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "SECURITY.md"], ids=lambda page: page.name)
def test_pages_are_in_plain_english(page):
    """No page contains an odd word. docs/steps.md is generated from docstrings in the code."""
    if page.name != "steps.md":
        assert odd_words(page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_prose_wraps_at_120_columns(page):
    """Tables, code and command output may be wider; docs/steps.md is generated."""
    prose = re.sub(r"^```.*?^```|^    [^\n]*$|^\|[^\n]*$", "", page.read_text(), flags=re.M | re.S)
    assert page.name == "steps.md" or [line for line in prose.splitlines() if len(line) > 120] == []


@pytest.mark.parametrize("words", ODD_WORDS)
def test_each_odd_word_is_found(words):
    """Odd words are found in prose, after code and across lines, but not in code."""
    example = ODD_WORDS[words]
    assert odd_words(f"    code\n\nHere {example.replace(' ', chr(10))} now.")
    assert not odd_words(f"Here `{example}` and\n\n    {example}\n\n```\n{example}\n```\n")


CODE = sorted(
    path
    for folder in ("src", "packages")
    for path in (ROOT / folder).rglob("*.py")
    if not {".venv", "tests"} & {*path.relative_to(ROOT).parts}
)


STORED = ("controls beside it", "the reader cannot go on behind it", "perhaps `delimiter: ` is meant")
"""Parts of details that are stored with documents: other words would change the stored bytes."""


def prose_of(source):
    """Comments, docstrings and other strings of a Python file. A single word, such as a key, is not prose."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            text = " ".join(re.sub(r"\{[^{}]*\}", "", token.string).strip("rfb#\"' ").split())
            if " " in text and not any(stored in text for stored in STORED):
                yield text


@pytest.mark.parametrize("folder", sorted({path.relative_to(ROOT).parts[:3][-1] for path in CODE}))
def test_code_is_in_plain_english(folder):
    """Messages, docstrings and comments contain no odd words; quoted names of code do not count."""
    found = [
        f"{path.relative_to(ROOT)}: {words}"
        for path in CODE
        if path.relative_to(ROOT).parts[:3][-1] == folder
        for text in prose_of(path.read_text())
        for words in odd_words(text)
    ]
    assert found == []


REPEATED = ("Config", "Reader")
"""`Config` is the settings of a stage; format packages and loader users import their own `Reader`."""


def test_a_class_name_has_one_meaning():
    """No two classes have the same name."""
    names = Counter(name for path in CODE for name in re.findall(r"^class (\w+)", path.read_text(), re.M))
    assert [name for name, times in names.items() if times > 1 and name not in REPEATED] == []
