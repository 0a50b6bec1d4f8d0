"""Build the demo inputs, and score a run of the demo recipe against the truth about them.

python -m demo build demo/inputs
python -m demo score recipes/demo.yaml demo/inputs
python -m demo picture recipes/demo.yaml docs/demo.svg
"""

import argparse
import io
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from demo import inputs
from demo.pages import FOOTER
from demo.score import Row, Texts, score, summary, table
from demo.truth import Truth
from gristmill.cli.shared.screen import complain, say, speaking
from gristmill.engine.mill import Mill
from gristmill.engine.schedule.run import Run
from gristmill.errors import UserError
from gristmill.query.documents.documents import rows
from gristmill.recipe.checks.columns import INGEST
from gristmill.recipe.load import load

SCRUB = "scrub"
WIDTH = 100
"""Columns of the picture."""
KIND_OF = {"email": "email", "ip": "ip_address", "secret": "secret"}
"""Types of scrub, and the kinds of defect that were planted for them."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, dest="command")
    builder = commands.add_parser("build", help="make the inputs")
    builder.add_argument("folder", type=Path, help="a new or empty folder")
    builder.add_argument("--seed", type=int, default=0)
    builder.add_argument("--scale", type=float, default=1.0, help="1 is about 27 MB of HTML; 0.1 a tenth of the pages")
    scorer = commands.add_parser("score", help="compare a finished run with the truth")
    scorer.add_argument("recipe", type=Path)
    scorer.add_argument("folder", type=Path, help="the folder that `build` filled")
    scorer.add_argument("--table", action="store_true", help="also show every kind of defect")
    painter = commands.add_parser("picture", help="draw what `run` and `funnel` print for a finished run")
    painter.add_argument("recipe", type=Path)
    painter.add_argument("out", type=Path, help="an SVG file")
    given = parser.parse_args()
    try:
        if given.command == "build":
            say(inputs.summary(given.folder, inputs.build(given.folder, given.seed, given.scale)))
        elif given.command == "picture":
            given.out.write_text(draw(given.recipe))
        else:
            say(score_run(given.recipe, Truth.read(given.folder / "truth.json"), given.table))
    except UserError as error:
        complain(error)
        return 2
    return 0


def draw(recipe: Path) -> str:
    """The output of two commands as SVG, in the fonts of the reader's system."""
    screen = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False)
    for command in ("run", "funnel"):
        environment = {**os.environ, "COLUMNS": str(WIDTH)}
        ran = subprocess.run(
            [sys.executable, "-m", "gristmill", command, str(recipe)], env=environment, capture_output=True, text=True
        )
        if ran.returncode:
            raise UserError(f"gristmill {command} {recipe} failed, so nothing was drawn. {ran.stderr}")
        screen.print(Text(f"$ gristmill {command} {recipe}", "bold green"))
        shown = ran.stdout if command == "run" else ran.stdout.partition("\n\n")[0]
        for line in shown.splitlines():
            screen.print(Text(line.rstrip()), no_wrap=True)
    layout = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    layout = layout.replace("Fira Code", "ui-monospace").replace("<svg ", '<svg xml:space="preserve" ')
    return screen.export_svg(title="Gristmill", code_format=layout)


def score_run(recipe: Path, truth: Truth, with_table: bool) -> str:
    """Scores the planted defects against the run in the recipe's store."""
    mill = Mill(load(recipe))
    run = mill.dry_run()
    texts: dict[tuple[str, str], Texts | None] = {}
    verdicts = []
    for row in rows(run, None, None, None, cuts=True):
        url, snapshot = row.fields["url"], row.fields["snapshot"]
        step = None if row.step is None else row.step.rsplit("/", 1)[-1]
        verdicts.append(Row(row.fields["source"], url, row.fields["locator"], snapshot, step, row.reason))
        if url is not None and snapshot is not None and (row.text is not None or (url, snapshot) not in texts):
            whole = "".join(piece for piece, _ in row.pieces)
            texts[url, snapshot] = None if row.text is None else Texts(whole, row.text)
    steps = {INGEST, *(step.name for step in mill.recipe.steps)}
    wrong = {"boilerplate_line": count_good_lines(run, truth)} if "line_dedup" in steps else {}
    beside: Counter[str] = Counter()
    if SCRUB in steps:
        in_pages, beside = count_replaced(run, truth)
        wrong |= in_pages
    found = score(truth, verdicts, steps, lambda url, snapshot: texts.get((url, snapshot)), wrong)
    others = ", ".join(f"{what} {number}" for what, number in sorted(beside.items()))
    return "\n".join(
        [
            *([table(found)] if with_table else []),
            summary(found),
            *([f"Replaced by {SCRUB} in documents without planted defects: {others}"] if others else []),
        ]
    )


def count_replaced(run: Run, truth: Truth) -> tuple[dict[str, int], Counter[str]]:
    """Replaced values that were not planted: by kind in pages of the crawl, where they are wrong; by source and type in
    all other documents, where authors of Python left their addresses.
    """
    planted = {(kind, plant.url, plant.snapshot) for kind, found in truth.plants.items() for plant in found}
    known = {*truth.good, *truth.other, *((url, snapshot) for _, url, snapshot in planted if url)}
    wrong, beside = dict.fromkeys(KIND_OF.values(), 0), Counter[str]()
    for row in rows(run, SCRUB, None, None):
        url, snapshot = row.fields["url"], row.fields["snapshot"]
        for found in row.columns["replaced_types"] or ():
            kind = KIND_OF.get(found)
            if kind is None or (url, snapshot) not in known:
                beside[f"{row.fields['source']} {found}"] += 1
            elif (kind, url, snapshot) not in planted:
                wrong[kind] += 1
    return wrong, beside


def count_good_lines(run: Run, truth: Truth) -> int:
    """Lines that were cut and are neither planted nor the footer of every page."""
    planted = {plant.text for plant in truth.plants["boilerplate_line"]}
    cut = [made.metrics.get("most_cut", {}) for made in run.states.values()]
    return sum(
        count for lines in cut for line, count in lines.items() if line not in planted and not line.startswith(FOOTER)
    )


if __name__ == "__main__":
    sys.exit(speaking(main))
