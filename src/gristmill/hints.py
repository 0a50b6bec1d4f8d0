"""Names of settings and actions in messages, in the form of Python or of the command line.

Messages of the library use `option("tag", name)` and `hint("run", recipe=...)`. A notebook shows `tag=v1` and
`corpus.run()`. In a command (`as_command_line`), the same message shows `--tag v1` and `gristmill run ...`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

HINTS = {
    "run": ("gristmill run {recipe}", "corpus.run()"),
    "run_sample": ("gristmill run {recipe} --sample {sample}", "gristmill.open('{recipe}', sample='{sample}').run()"),
    "plan": ("gristmill plan", "corpus.plan()"),
    "funnel": ("gristmill funnel", "corpus.funnel()"),
    "sql": ("gristmill sql", "corpus.sql(...)"),
    "open": ("gristmill {command} {name}", "gristmill.open('{name}')"),
    "dropped": ("gristmill inspect {recipe} --reason {reason}", "corpus.documents(reasons=['{reason}'])"),
    "dropped_of": (
        "gristmill inspect {recipe} --source {source} --reason {reason}",
        "corpus.documents(reasons=['{reason}'], sources=['{source}'])",
    ),
    "report_against": (
        "gristmill report {recipe} --against {version} --out report.html",
        "corpus.report(against='{version}')",
    ),
    "receipt": ("gristmill takedown receipt", "the command gristmill takedown receipt"),
    "watch": ("gristmill watch {recipe}", "corpus.watch()"),
    "unread": ("gristmill inspect {recipe} --stage ingest --reason {reason}", "corpus.documents(reasons=['{reason}'])"),
    "repaired": ("gristmill inspect {recipe} --stage ingest --json", "corpus.documents(columns=['meta'])"),
    "find_words": ("gristmill inspect {recipe} --grep", "corpus.lineage('\"WORDS\"')"),
    "look": ("gristmill status, funnel, inspect", "corpus.funnel(), corpus.documents()"),
    "from_store": (
        "status, funnel, bias, inspect, lineage, sample, shards, tokenizer, sql, export, verify and gc: "
        "gristmill funnel {name} --by rule, gristmill inspect {name} --dropped",
        "funnel, documents, sql, lineage and export: gristmill.open('{name}').funnel()",
    ),
    "recipe_of": ("gristmill status {name} --recipe > recipe.yaml", "gristmill status {name}, with its option recipe"),
    "repair": ("gristmill verify {recipe} --repair", "gristmill verify {recipe}, with its option repair,"),
    "curve": ("; the curve: --explain", ""),
    "save_answer": ("--csv or --parquet FILE", "pyarrow.parquet.write_table(corpus.sql(...), FILE)"),
    "train_extractor": (
        "gristmill extractor train FOLDER --out FILE",
        "gristmill extractor train, of the package gristmill-extractor",
    ),
    "reproduce": (
        "gristmill versions reproduce {recipe} {version} --into {into}",
        "gristmill versions reproduce {recipe} {version}",
    ),
    "lineage_of": (
        "WHAT (an id, a URL, a hash of a text, quoted words), or --sample with --token",
        "what (an id, a URL, a hash of a text, quoted words), text, or sample with token",
    ),
}
"""Actions in the form of the command line and of Python. The caller replaces RECIPE if it knows the recipe."""

FLAGS = {"file_bytes": "--file-size"}
"""Options with another name on the command line; all others have the same name, with `-` for `_`."""

_is_command_line = False


@contextmanager
def as_command_line() -> Iterator[None]:
    """Within this context, messages name options and commands."""
    global _is_command_line
    before, _is_command_line = _is_command_line, True
    try:
        yield
    finally:
        _is_command_line = before


def option(name: str, value: object = None) -> str:
    """A setting of a call, alone or with its value: `tag=`, `tag=v1`; `--tag`, `--tag v1`."""
    if not _is_command_line:
        return f"{name}={'' if value is None else value}"
    flag = FLAGS.get(name, "--" + name.replace("_", "-"))
    return flag if value is None else f"{flag} {value}"


def hint(action: str, **facts: object) -> str:
    """The call or command for an action in `HINTS`."""
    command, call = HINTS[action]
    return (command if _is_command_line else call).format(**{"recipe": "RECIPE", **facts})


def share_text(share: float) -> str:
    """A sample as a user writes it: `12.5%`."""
    return f"{share * 100:.12g}%"


def named(recipe: str, sample: float | None) -> str:
    """A recipe's file, with its sample if there is one."""
    if sample is None:
        return recipe
    chosen = option("sample", share_text(sample))
    return f"{recipe} {chosen}" if _is_command_line else f"{recipe} ({chosen})"
