"""Build the demo inputs, and score a run of the demo recipe against the truth about them.

python -m gristmill.demo build demo/inputs
python -m gristmill.demo score recipes/demo.yaml demo/inputs
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa

from gristmill.cli.screen import complain, say, speaking
from gristmill.demo.inputs import build, summary
from gristmill.demo.pages import FOOTER
from gristmill.demo.score import Row, Texts, score, table
from gristmill.demo.truth import Truth
from gristmill.engine.mill import Mill
from gristmill.engine.schedule.run import Run
from gristmill.errors import UserError
from gristmill.query.documents import rows
from gristmill.recipe.columns import INGEST
from gristmill.recipe.load import load
from gristmill.stages.tokenizer import tokenizer, tokenizer_sample

SCRUB = "scrub"
KIND_OF = {"email": "email", "ip": "ip_address", "secret": "secret"}
"""Types of scrub, and the kinds of what was planted for them."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m gristmill.demo", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, dest="command")
    builder = commands.add_parser("build", help="make the inputs")
    builder.add_argument("folder", type=Path, help="a new or empty folder")
    builder.add_argument("--seed", type=int, default=0)
    builder.add_argument("--scale", type=float, default=1.0, help="1 is about 27 MB of HTML; 0.1 a tenth of the pages")
    scorer = commands.add_parser("score", help="compare a finished run with the truth")
    scorer.add_argument("recipe", type=Path)
    scorer.add_argument("folder", type=Path, help="the folder that `build` filled")
    generic = commands.add_parser("generic", help="train a tokenizer on Python's reference alone, to compare with")
    generic.add_argument("folder", type=Path)
    generic.add_argument("--vocab", type=int, default=8000)
    given = parser.parse_args()
    try:
        if given.command == "build":
            say(summary(given.folder, build(given.folder, given.seed, given.scale)))
        elif given.command == "generic":
            train_generic(given.folder, given.vocab)
        else:
            say(score_run(given.recipe, Truth.read(given.folder / "truth.json")))
    except UserError as error:
        complain(error)
        return 2
    return 0


def train_generic(folder: Path, vocab: int) -> None:
    """A tokenizer that knows nothing of the demo corpus but English: trained on the prose that comes with Python."""
    from pydoc_data import topics

    texts = pa.array([text for _, text in sorted(topics.topics.items())])
    names = ("sampled", "domain", "split")
    columns = [texts, pa.array(["prose"] * len(texts)), pa.array([tokenizer_sample.TRAIN] * len(texts))]
    folder.mkdir(parents=True, exist_ok=True)
    batch = pa.RecordBatch.from_arrays(columns, names=names)
    tokenizer.fit([batch], tokenizer.Config(vocab=vocab), folder / "tokenizer.json")


def score_run(recipe: Path, truth: Truth) -> str:
    """The table of planted defects for the run that the recipe's store holds."""
    mill = Mill(load(recipe))
    run = mill.look()
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
    shown = table(score(truth, verdicts, steps, lambda url, snapshot: texts.get((url, snapshot)), wrong))
    told = ", ".join(f"{what} {number}" for what, number in sorted(beside.items()))
    return f"{shown}\n{SCRUB} also replaced, where the truth says nothing: {told}" if told else shown


def count_replaced(run: Run, truth: Truth) -> tuple[dict[str, int], Counter[str]]:
    """Values that nobody planted: by kind in pages of the crawl, where they are wrong; by source and type in all other
    documents, where authors of Python left their addresses.
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
    cut = [made.metrics.get("most_cut", {}) for made in run.made.values()]
    return sum(
        count for lines in cut for line, count in lines.items() if line not in planted and not line.startswith(FOOTER)
    )


if __name__ == "__main__":
    sys.exit(speaking(main))
