"""A corpus with hostile documents and two versions, for tests of the explorer."""

import json
from contextlib import contextmanager
from types import SimpleNamespace

from gristmill.engine.publish.run_record import see
from gristmill_explore.app import create_app
from gristmill_explore.explorer import Explorer
from gristmill_explore.pages import explorer_pages

TOKEN, PORT = "secret", 8080
ORIGIN = f"http://127.0.0.1:{PORT}"
EVIL = (
    "<script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)>\"'><a href=javascript:alert(4)>x</a>"
    "&lt;script&gt;{{ 7777 * 7 }}<div hx-get=/labels hx-trigger=load>"
    "\x1b]0;owned\x07\x1b[2J\u202eabc\u2066d\u2028\x9b31m"
)
PROSE = "The grain of the mill and the water that have to be with the stone are here for the wheel to turn"
RECIPE = """
recipe: hostile
seed: 5
store: ./store
sources:
  notes: {kind: text, read: {format: jsonl, paths: ["in*.jsonl"], fields: {key: id, url: url, title: title}}}
steps:
  - signals
  - heuristics:
      gopher_quality: {min_words: 12, min_stop_words: 1, min_letter_words_share: 0.1, max_mean_word_chars: 100}
  - exact_dedup
"""


def write_hostile(project):
    """Run a corpus of which every text, URL, title, key and file name is hostile; tag v1; then run other thresholds."""
    lines = []
    for n in range(8):
        fields = {"id": f"{EVIL}{n}", "url": f"javascript:alert({n})//{EVIL}", "title": EVIL}
        lines.append({**fields, "text": f"{EVIL} {PROSE} " * (n % 4 + 1)})
    for n in range(9):
        lines.append({"id": f"s{n}", "url": f"http://short.example/{n}", "text": f"few words {n} {'and more ' * n}"})
    name = EVIL.replace("/", "|")[:80]
    (project.folder / f"in{name}.jsonl").write_text("\n".join([*map(json.dumps, lines), "{broken" + EVIL]))
    project.recipe.write_text(RECIPE)
    project.run()
    project.mill().store.write_json("versions/v1.json", project.mill().newest_whole())
    project.recipe.write_text(RECIPE.replace("min_words: 12", "min_words: 8"))
    project.run()
    return project


@contextmanager
def explored(project, labels, against=None, is_indexed=True):
    """An explorer of a project and its application."""
    mill = project.mill()
    run = mill.dry_run()
    explorer = Explorer(run, labels, mill, None if against is None else see(run.store, against))
    if is_indexed:
        explorer.index.start()
        explorer.index.wait()
    try:
        app = create_app(run.label, explorer_pages(explorer), TOKEN, PORT)
        yield SimpleNamespace(explorer=explorer, app=app, run=run, mill=mill, labels=labels)
    finally:
        explorer.close()
