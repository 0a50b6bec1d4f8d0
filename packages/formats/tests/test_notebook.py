"""Notebooks: prose and fenced code in order, bounded outputs, and a reason for a file that is not a notebook."""

import json

import pytest

from gristmill.stages.contract import Piece
from gristmill_formats import notebook

CELLS = [
    {"cell_type": "markdown", "source": ["# The mill\n", "![stone](data:image/png;base64,iVBO) turns"]},
    {
        "cell_type": "code",
        "source": "print('```')\n",
        "outputs": [
            {"output_type": "stream", "text": ["\x1b[31mred\x1b[0m\n", "x" * 3000]},
            {"output_type": "display_data", "data": {"image/png": "iVBO"}},
            {"output_type": "error", "ename": "ValueError", "evalue": "no grain", "traceback": ["..."]},
        ],
    },
    {"cell_type": "raw", "source": "the end"},
]
FORMAT_4 = {"cells": CELLS, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4}
FORMAT_3 = {
    "worksheets": [
        {
            "cells": [
                {"cell_type": "heading", "level": 2, "source": ["The mill"]},
                {"cell_type": "code", "language": "python", "input": ["1 + 1"], "outputs": [{"text": ["2"]}]},
            ]
        }
    ],
    "nbformat": 3,
}


def row(tmp_path, content, **config):
    path = tmp_path / "a.ipynb"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    [found] = notebook.read(Piece(str(path), path.name), notebook.Config(**config))
    return found


def test_cells_become_markdown_with_fenced_code(tmp_path):
    """In order; images are cut, outputs lose colours, end at the limit, and no fence ends inside the code."""
    found = row(tmp_path, FORMAT_4, max_output_bytes=20)
    assert found.text == (
        "# The mill\n![stone]() turns\n\n````python\nprint('```')\n````\n\n```output\nred\n...\n```\n\nthe end"
    )
    assert (found.title, found.language_hint, found.drop) == ("The mill", "Python", None)
    assert "ValueError: no grain" in row(tmp_path, FORMAT_4, max_output_bytes=4000).text
    assert "output" not in row(tmp_path, FORMAT_4, max_output_bytes=0).text


def test_a_script_has_the_prose_as_comments(tmp_path):
    """`layout: script` keeps the code as it is and no outputs."""
    found = row(tmp_path, FORMAT_4, layout="script")
    assert found.text == "# # The mill\n# ![stone]() turns\n\nprint('```')\n\n# the end"


def test_format_3_is_read(tmp_path):
    """Its cells are in worksheets, and its headings are cells."""
    assert row(tmp_path, FORMAT_3).text == "## The mill\n\n```python\n1 + 1\n```\n\n```output\n2\n```"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b" \n", "empty_file"),
        (b"{broken", "invalid_json"),
        ([], "not_an_object"),
        ({"a": 1}, "not_a_notebook"),
        ({"cells": [None, {"cell_type": "code", "source": {"a": 1}, "outputs": [1, {"data": 2}]}]}, "empty_text"),
        (b"[" * 100_000, "invalid_json"),
        ({"cells": [{"cell_type": "markdown", "source": "x" * 5000}]}, "record_too_large"),
    ],
    ids=["spaces", "broken", "array", "another object", "no text", "nested", "large"],
)
def test_another_file_is_a_row_with_a_reason(tmp_path, content, reason):
    """The row has no text."""
    found = row(tmp_path, content, max_record_bytes=200_000 if reason == "invalid_json" else 4096)
    assert (found.drop, found.text) == (reason, None)


def test_what_stands_for_an_object_is_no_output(tmp_path):
    """Its address differs in every run; and the title may be in the front matter of R Markdown."""
    handles = (
        "<matplotlib.figure.Figure at 0x10d0da080>",
        "<Figure size 640x480 with 1 Axes>",
        "<Axes: title={'x': 1}>",
    )
    outputs = [{"data": {"text/plain": one}} for one in handles]
    outputs += [{"data": {"text/plain": "<AxesSubplot:xlabel='a', ylabel='b'>"}}, {"text": "<b>1</b> at 0x1"}]
    cells = [{"cell_type": "raw", "source": "---\ntitle: Mills\na: b\n---"}]
    cells += [{"cell_type": "code", "source": "x", "outputs": outputs}]
    found = row(tmp_path, {"cells": cells})
    assert found.text.endswith("```output\n<b>1</b> at 0x1\n```")
    assert found.title == "Mills"


def test_formulas_and_markdown_of_outputs_are_text(tmp_path):
    """Widgets are not; LaTeX that is a table has its plain text; a line that was overwritten is written once."""
    outputs = [
        {"text": ["  5%|#\r", " 50%|##\r", "100%|####\n", "done\r\n"]},
        {"data": {"text/plain": " 2\nx", "text/latex": "$\\displaystyle x^{2}$"}},
        {"data": {"text/plain": "<IPython.core.display.Markdown object>", "text/markdown": ["**The** ", "mill\n"]}},
        {"data": {"text/plain": "a  b", "text/latex": "\\begin{tabular}{l}a\\end{tabular}"}},
        {"data": {"text/plain": "HBox(children=())", "application/vnd.jupyter.widget-view+json": {"model_id": "1"}}},
    ]
    cells = [{"cell_type": "code", "source": "x", "outputs": outputs}]
    found = row(tmp_path, {"cells": cells}).text
    assert found == (
        "```\nx\n```\n\n```output\n100%|####\ndone\n```\n\n$x^{2}$\n\n**The** mill\n\n```output\na  b\n```"
    )
    assert row(tmp_path, {"cells": cells}, max_output_bytes=16).text.endswith("done\n```\n\n...")


@pytest.mark.parametrize(
    ("metadata", "cell", "fence", "hint"),
    [
        ({"language_info": {"name": "c++"}}, {}, "c++", "C++"),
        ({"kernelspec": {"name": "python3"}}, {}, "python", "Python"),
        ({"kernelspec": {"name": "ir"}}, {}, "r", "R"),
        ({"kernelspec": {"name": 3}}, {}, "", None),
        ({"language_info": {"name": "C#"}}, {"metadata": {"vscode": {"languageId": "fsharp"}}}, "fsharp", "C#"),
        ({"language_info": {"name": "python"}}, {"source": "%%R\nx"}, "r", "Python"),
        ({"language_info": {"name": "python"}}, {"source": "%%time\nx"}, "python", "Python"),
        ({}, {"language": "python"}, "python", None),
    ],
)
def test_a_fence_names_the_language_of_its_cell(tmp_path, metadata, cell, fence, hint):
    """That of the kernel, unless the cell names another one. The hint is the name that code has."""
    found = row(tmp_path, {"cells": [{"cell_type": "code", "source": "x"} | cell], "metadata": metadata})
    assert (found.text.partition("\n")[0], found.language_hint) == (f"```{fence}", hint)
