"""Unknown names in a recipe are reported before any work, with the nearest known one."""

import pytest
from tests.kernels.text.test_fasttext import Tiny

from gristmill.errors import UserError
from gristmill.recipe.load import load
from gristmill.stages.natural_languages import LID_176, intended_label

RECIPE = """recipe: names
sources:
  pages: {{kind: web, read: {{format: jsonl, paths: [pages.jsonl]}}{license}}}
  repos: {{kind: code, read: {{format: code, paths: [repos/]}}}}
steps:
  web:
    - language
{web}
  code:
    - signals
    - code_signals
{code}
  all:
    - exact_dedup{dedup}
"""


def faults(tmp_path, web="", code="", license="", dedup=""):
    """The lines of the message for a recipe with these steps; empty if it loads."""
    path = tmp_path / "names.yaml"
    steps = {"web": web, "code": code}
    indented = {key: "\n".join(f"    {line}" for line in text.split("\n") if line) for key, text in steps.items()}
    path.write_text(RECIPE.format(license=license, dedup=dedup, **indented))
    try:
        load(path)
    except UserError as error:
        return str(error).split("\n")
    return []


@pytest.mark.parametrize(
    ("steps", "text_shown"),
    [
        (
            {"web": "- keep_language:\n    keep:\n      - en\n      - german"},
            [":11: ", "keep[1] names 'german'", "mean de?"],
        ),
        (
            {"web": "- keep_language: {keep: {en: 0.5, deu_Latn: 0.6}}"},
            [":8: ", "'deu_latn'", "lid.176.ftz", "mean de?"],
        ),
        (
            {"web": "- keep_language: {keep: [en, 'code:python']}"},
            ["'code:python'", "It has 176, such as ar, de, en"],
        ),
        ({"web": "- signals: {stop_words_by_language: {sweedish: [och]}}"}, ["sweedish", "mean sv?"]),
        (
            {"web": "- signals\n- heuristics: {gopher_quality: {by_language: {chinese: {min_words: 3}}}}"},
            [":9: ", "gopher_quality.by_language.chinese", "mean zh?"],
        ),
        (
            {"web": "- signals\n- heuristics: {gopher_quality: {by_source: {page: {min_words: 3}}}}"},
            [
                "by_source.page names 'page', which is not a source of the recipe.",
                "Did you mean pages? Sources of the recipe",
            ],
        ),
        (
            {"code": "- heuristics: {code: {by_language: {'code:python': {min_chars: 3}}}}"},
            ["not a programming language that the reader detects. Did you mean Python?"],
        ),
        (
            {"dedup": ": {keep: {sources: [pagse, repos]}}"},
            ["exact_dedup.keep.sources[0] names 'pagse'", "mean pages?"],
        ),
        (
            {"code": "- gate: {allow_licenses: [MIT, Apache2], meta_robots: [], x_robots_tag: []}"},
            ["allow_licenses[1] names 'Apache2'", "mean Apache-2.0?", "LicenseRef-"],
        ),
        ({"license": ", license: Apache 2.0"}, [":3: ", "sources.pages.license", "mean Apache-2.0?"]),
        ({"license": ", license: MIT OR (Apache-2 AND ISC)"}, ["names 'Apache-2'", "mean Apache-2.0?"]),
        ({"license": f", license: '{'null' * 200}!'"}, ["license names 'nullnull", "is not an SPDX license"]),
    ],
)
def test_an_unknown_name_is_reported_with_its_line(tmp_path, steps, text_shown):
    """File and line, the name, and what it should have been."""
    (line,) = faults(tmp_path, **steps)
    for words in text_shown:
        assert words in line, line


def test_known_names_pass(tmp_path):
    """In any case; licenses as expressions, with exceptions, custom ones, and as records of a file may spell them."""
    assert not faults(
        tmp_path,
        web="- keep_language: {keep: [EN, de, zh, yue]}\n- signals\n"
        "- heuristics: {c4: {by_language: {DE: {min_sentences: 3}}, by_source: {pages: {min_sentences: 1}}}}\n"
        "- gate: {allow_licenses: [CC BY 4.0, mit, LicenseRef-ours], meta_robots: [], x_robots_tag: []}",
        code="- heuristics: {code: {by_language: {python: {min_chars: 3}, C++: {min_chars: 1}}}}\n"
        "- gate: {allow_licenses: [GPL-3.0, GPL-2.0+, 'MIT OR (ISC AND 0BSD)', 'GPL-2.0 WITH Classpath-exception-2.0'],"
        " meta_robots: [], x_robots_tag: []}",
        license=", license: CC-BY-SA-4.0",
        dedup=": {keep: {sources: [repos]}}",
    )


def test_the_labels_of_a_custom_model_are_read_from_it(tmp_path):
    """A language that lid.176 calls de may have another label there, or none."""
    (tmp_path / "own.bin").write_bytes(Tiny(labels=("deu_Latn", "eng_Latn")).file)
    path = tmp_path / "own.yaml"
    source = "recipe: r\nsources: {a: {kind: web, read: {format: jsonl, paths: [a.jsonl]}}}\nsteps:\n  web:\n"
    path.write_text(source + "    - language: {model: own.bin}\n    - keep_language: {keep: [deu_latn, eng_Latn]}\n")
    load(path)
    path.write_text(source + "    - language: {model: own.bin}\n    - keep_language: {keep: [de, eng_Latn]}\n")
    with pytest.raises(UserError, match=r"own.yaml:6: .*'de', which is not a label of .*own.bin.* you mean deu_latn"):
        load(path)


def test_common_names_of_languages_are_recognized():
    """Names in English, codes of two and three letters, codes with a script or a country."""
    written = ("german", "German", "deu", "deu_Latn", "de-AT", "pt-BR", "zh-tw", "mandarin", "farsi", "klingon")
    assert [intended_label(name, LID_176) for name in written] == [
        "de",
        "de",
        "de",
        "de",
        "de",
        "pt",
        "zh",
        "zh",
        "fa",
        None,
    ]
    other_codes = ("ger", "fre", "chi", "gre", "jp", "cn", "iw", "xx", "xyz")
    assert [intended_label(name, LID_176) for name in other_codes] == [
        "de",
        "fr",
        "zh",
        "el",
        "ja",
        "zh",
        "he",
        None,
        None,
    ]


@pytest.mark.parametrize("kept", ["[en, ger]", "{en: 0.5, ger: 0.5}", "{en: null, GER: null}"])
def test_an_unknown_language_has_the_same_message_in_a_list_and_in_a_mapping(tmp_path, kept):
    """In every spelling, the message names the intended language."""
    (line,) = faults(tmp_path, web=f"- keep_language: {{keep: {kept}}}")
    assert "names 'ger', which is not a label" in line
    assert line.endswith("Did you mean de?")
