"""Records of web archives that a format reads which the recipe names: `bodies: {FORMAT: {...}}`."""

import pyarrow.parquet as pq
import pytest
from tests.stages.ingest.archives import http, record

from gristmill.engine.mill import find_warnings
from gristmill.errors import UserError

FORMAT = """
import pyarrow as pa

from gristmill.stages.contract import BodyFormat, Reader, StageConfig


class Config(StageConfig):
    suffix: str = ""


def read(piece, config):
    return iter(())


def fill(record, data, config):
    record.text, record.more = data.decode() + config.suffix, (len(data),)
    return {"by": "NAME"}


STAGE = Reader(
    VERSION
    config=Config,
    read=read,
    columns=pa.schema([("NAME_bytes", pa.int64())]),
    BODY
    metrics=lambda batch, config: {"NAME": batch.num_rows},
    warnings=lambda counts, config: [f"NAME: {counts['NAME']}"],
)
"""
BODY = "body=BodyFormat(media_types=('text/NAME',), opens=lambda opening: opening.startswith(b'NAME'), fill=fill),"


@pytest.fixture
def crawl(project, forgotten):
    """An archive with a page, a PDF file and two other files, and formats next to the recipe that read the latter."""
    for name in ("apples", "pears"):
        (project.folder / f"{name}.py").write_text(code_of(name))
    (project.folder / "plain.py").write_text(code_of("plain", body=""))
    (project.folder / "open.py").write_text(code_of("open", version=""))
    bodies = ((b"<p>page", "text/html"), (b"two", "text/apples"), (b"pears", None), (b"%PDF-1.7", "application/pdf"))
    records = (record(http(body, mime=mime), url=f"http://a.de/{body[:3]!r}") for body, mime in bodies)
    (project.folder / "crawl.warc").write_bytes(b"".join(records))
    return project


def code_of(name, body=BODY, version="version=1,"):
    return FORMAT.replace("BODY", body).replace("VERSION", version).replace("NAME", name)


def write_recipe(project, bodies):
    project.recipe.write_text(
        "recipe: project\nstore: ./store\nsources:\n"
        f"  crawl: {{kind: web, read: {{format: warc, paths: [crawl.warc]{bodies}}}}}\nsteps: [extract]\n"
    )


def read_rows(run, *columns):
    """Columns of the documents, as tuples."""
    ((_, (part, _)),) = run.states["crawl/ingest"].layers.items()
    return [tuple(row.values()) for row in pq.read_table(run.store.part_path(part), columns=list(columns)).to_pylist()]


def test_a_body_is_read_by_the_format_that_the_recipe_names(crawl):
    """By its media type or its first bytes; columns of other formats are null, and each format counts and warns."""
    write_recipe(crawl, ", bodies: {pears: {}, apples: {suffix: '!'}}")
    run = crawl.run(workers=1)
    rows = read_rows(run, "text", "drop", "pears_bytes", "apples_bytes")
    assert rows[1:3] == [("two!", None, None, 3), ("pears", None, 5, None)]
    assert [row[1] for row in rows] == [None, None, None, "not_text"]
    assert [str(one) for one in find_warnings(run)] == ["crawl/ingest: pears: 4", "crawl/ingest: apples: 4"]


def test_a_format_and_its_settings_are_in_the_key_if_the_recipe_names_it(crawl):
    """Its version, too; a recipe that does not name it has another key."""
    keys = set()
    for bodies in ("", ", bodies: {apples: {}}", ", bodies: {apples: {suffix: x}}"):
        write_recipe(crawl, bodies)
        keys.add(str(crawl.dry_run().nodes["crawl/ingest"].identity))
    (crawl.folder / "apples.py").write_text(code_of("apples", version="version=2,"))
    identity = crawl.dry_run().nodes["crawl/ingest"].identity
    assert identity["others"]["apples"]["version"] == 2
    assert len({*keys, str(identity)}) == 4


def test_records_that_a_format_could_read_are_a_warning_unless_the_recipe_names_none(crawl):
    """It says how many, and what to write."""
    for bodies, warned in (("", True), (", bodies: {}", False), (", bodies: {apples: {}}", False)):
        write_recipe(crawl, bodies)
        texts = [one for one in find_warnings(crawl.run()) if one.name == "unread_bodies"]
        assert [text.startswith("crawl/ingest: 1 record is of the format pdf") for text in texts] == [True] * warned


@pytest.mark.parametrize(
    ("bodies", "message"),
    [
        ("{plain: {}}", "sources.crawl.read.bodies.plain: the format plain reads no records of archives"),
        ("{open: {}}", "sources.crawl.read.bodies.open: the format open needs a version to read records"),
        ("{aples: {}}", "aples is not a format. Did you mean apples?"),
        ("{apples: {sufix: x}}", "sources.crawl.read.bodies.apples.sufix is not a field. Did you mean suffix?"),
        ("{apples: 3}", "sources.crawl.read.bodies.apples must be a mapping of settings, not 3"),
        ("[apples]", "sources.crawl.read.bodies must be"),
    ],
)
def test_a_wrong_body_is_a_mistake_of_the_recipe(crawl, bodies, message):
    """Before any work, with the line and the fix."""
    write_recipe(crawl, f", bodies: {bodies}")
    with pytest.raises(UserError) as raised:
        crawl.mill()
    assert f"recipe.yaml:4: {message}" in str(raised.value)
