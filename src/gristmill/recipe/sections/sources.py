"""The `sources` of a recipe."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gristmill.installed import SOURCES, installed, missing
from gristmill.recipe.checks.check import check
from gristmill.recipe.checks.columns import columns_of_source, extracts
from gristmill.recipe.checks.locations import locate_pattern
from gristmill.recipe.checks.mistakes import Path, dotted, listed, nearest, show
from gristmill.recipe.config import load_config
from gristmill.recipe.draft import Draft
from gristmill.recipe.fields import COLUMN, DerivedFields, ReadFields, SourceFields, check_name, is_column
from gristmill.recipe.model import Source, Step
from gristmill.recipe.stage_module import StageModule, check_config, import_stage, known_formats
from gristmill.stages import READERS
from gristmill.stages.contract import DocumentStage, Map, OtherStage, Reader, StageConfig
from gristmill.stages.declarations import stage_of
from gristmill.stages.own_code import Code, SourceFile
from gristmill.stages.reading.fields import Fields

_UNDER_READ = dict.fromkeys(ReadFields.model_fields, "It belongs one level down, under read.")
_NEXT_TO_READ = dict.fromkeys(SourceFields.model_fields, "It belongs one level up, next to read.")


def load_source(draft: Draft, name: str, raw: object) -> Source | None:
    """The source at sources.`name`; None if there was a mistake."""
    at: Path = ("sources", name)
    before = len(draft.mistakes)
    try:
        check_name(name)
    except ValueError as error:
        draft.add_at_key(at, f"sources: {error}.")
    if not isinstance(raw, dict):
        if at not in draft.tree.broken:
            draft.add(at, f"{dotted(at)} must be a mapping with kind and read, not {show(raw)}.")
        return None
    if (key := _derived_by(raw)) is not None:
        return _load_derived(draft, name, key, raw, at)
    fields = check(draft, SourceFields, raw, at, elsewhere=_UNDER_READ)
    written = raw.get("read")
    read_at: Path = (*at, "read")
    values = written if isinstance(written, dict) else {}
    common = {field: value for field, value in values.items() if field in ReadFields.model_fields}
    read = check(draft, ReadFields, common, read_at) if isinstance(written, dict) else None
    stage, config = _load_reader(draft, values, read_at)
    paths = _patterns(draft, read.paths if read else (), (*read_at, "paths"))
    path_lines = {path: draft.tree.line_of_value((*read_at, "paths", at)) for at, path in enumerate(paths)}
    exclude = _patterns(draft, read.exclude if read else (), (*read_at, "exclude"))
    index = read.index if read else None
    if read is not None and index is not None:
        files = _patterns(draft, index.files, (*read_at, "index", "files"))
        index = index.model_copy(update={"files": files})
        if stage is not None and stage.module != READERS["warc"]:
            draft.add(
                (*read_at, "index"), f"{dotted(read_at)}.index names records of web archives. Use `format: warc`."
            )
        if len(paths) > 1 or exclude or any(mark in path for path in read.paths for mark in "*?"):
            draft.add(
                (*read_at, "paths"),
                f"{dotted(read_at)}.paths must be one folder, without `exclude`: the folder in which the file names of "
                "the index begin.",
            )
    if fields is None or read is None or stage is None or config is None or len(draft.mistakes) > before:
        return None
    return replace(
        _source(name, fields, stage.module, config, draft.tree.line_of_key(at)),
        format=read.format,
        paths=paths,
        exclude=exclude,
        links=read.links,
        snapshot=read.snapshot,
        part_bytes=read.part_bytes,
        limit=read.limit,
        index=index,
        path_lines=path_lines,
        code=stage.code,
    )


def _derived_by(raw: Mapping[str, Any]) -> str | None:
    """The key of a source that a package adds in place of `read`, if it has one."""
    more = [key for key in raw if key not in SourceFields.model_fields]
    return next((key for key in more if key in installed(SOURCES) or missing(SOURCES, key)), None)


def _load_derived(draft: Draft, name: str, key: str, raw: dict[str, Any], at: Path) -> Source | None:
    """A source whose documents a step makes from those of other sources."""
    before = len(draft.mistakes)
    below: Path = (*at, key)
    if key not in installed(SOURCES):
        draft.add_at_key(below, missing(SOURCES, key) or "")
        return None
    if "read" in raw:
        draft.add_at_key((*at, "read"), f"{dotted(at)} has read and {key}. Write two sources, with one of them each.")
    fields = check(draft, SourceFields, {**{field: raw[field] for field in raw if field != key}, "read": {}}, at)
    written = raw[key]
    if not isinstance(written, dict):
        draft.add(below, f"{dotted(below)} must be a mapping with parents and other fields, not {show(written)}.")
        return None
    module = installed(SOURCES)[key].module
    step = import_stage(draft, "step", key, below, {key: module})
    if step is None:
        return None
    stage = stage_of(module)
    if not isinstance(stage, Map) or stage.children is None:
        fix = "docs/plugins.md says what it needs."
        draft.add_at_key(below, f"{key} cannot make documents: {module} is no Map with children. {fix}")
        return None
    reader = import_stage(draft, "format", stage.children, below, {})
    if reader is None:
        return None
    own = {field: value for field, value in written.items() if field not in DerivedFields.model_fields}
    common = {field: value for field, value in written.items() if field in DerivedFields.model_fields}
    config = load_config(draft, stage.config, own, below, also_allowed=DerivedFields.model_fields)
    derived = check(draft, DerivedFields, common, below)
    if fields is None or config is None or derived is None or len(draft.mistakes) > before:
        return None
    if not check_config(draft, module, key, config, below):
        return None
    line = draft.tree.line_of_key(at)
    source = _source(name, fields, reader.module, stage_of(reader.module).config(source=name), line)
    return replace(
        source,
        format=key,
        parents=derived.parents,
        maker=Step(f"{name}/{key}", key, name, module, config, line, code=step.code, implied_by=name),
        code=reader.code,
    )


def _source(name: str, fields: SourceFields, module: str, config: StageConfig, line: int) -> Source:
    """A source without files."""
    column_of_tier = fields.tier if is_column(fields.tier) else {}
    return Source(
        name=name,
        kind=fields.kind,
        format="",
        module=module,
        config=config,
        paths=(),
        exclude=(),
        links="inside",
        snapshot=None,
        part_bytes=ReadFields.model_fields["part_bytes"].default,
        limit=None,
        license=fields.license,
        domain=source_domain(name, fields.domain),
        tier=fields.tier if isinstance(fields.tier, str) else column_of_tier.get("default"),
        tiers=fields.tier if isinstance(fields.tier, dict) and not column_of_tier else {},
        weight=fields.weight,
        line=line,
        domain_column=fields.domain[COLUMN] if is_column(fields.domain) else None,
        tier_column=column_of_tier.get(COLUMN),
    )


def check_parents(
    draft: Draft, sources: Mapping[str, Source], routes: Mapping[str, tuple[Step, ...]]
) -> dict[str, tuple[Step, ...]]:
    """The routes of derived sources, each after the step that makes it, by a name that no source has. Adds a mistake
    if a parent is derived itself, or shares a step before that one with the derived source.
    """
    found: dict[str, tuple[Step, ...]] = {}
    for name, source in sources.items():
        for parent in source.parents:
            at: Path = ("sources", name, source.format, "parents")
            written = draft.tree.value["sources"]
            if parent not in written:
                near = nearest(parent, list(written))
                hint = f"Did you mean {near}?" if near else f"Sources: {listed(written)}."
                draft.add(at, f"{dotted(at)}: the recipe has no source {parent}. {hint}")
            elif parent in sources and sources[parent].parents:
                fix = "Name the source that is read, and do both in one step."
                draft.add(at, f"{dotted(at)}: {parent} is derived itself. {fix}")
            elif parent in routes and name in routes:
                ids = [step.id for step in routes[parent]]
                at_step, own = ids.index(source.made_by), {step.id for step in routes[name]}
                if shared := next((step for step in ids[:at_step] if step in own), None):
                    draft.add(
                        ("sources", name, "kind"),
                        f"sources.{name} takes the step {shared}, which its parent {parent} takes before the documents "
                        f"of {name} exist. Give it another kind, such as generated, with its own list of steps.",
                    )
                else:
                    found[f"{parent} > {name}"] = (routes[parent][at_step], *routes[name])
    return found


def source_domain(name: str, written: Any) -> str | None:
    """The domain of a source. If a column has the domains: the default, or else the name of the source."""
    return written.get("default", name) if is_column(written) else written


def _load_reader(draft: Draft, read: Mapping[str, Any], at: Path) -> tuple[StageModule | None, StageConfig | None]:
    """The reader, and its config from the fields of `read` that not every reader has."""
    name, format_at = read.get("format"), (*at, "format")
    if not isinstance(name, str):
        return None, None
    stage = import_stage(draft, "format", name, format_at, known_formats(name))
    if stage is None:
        return None, None
    reader = stage_of(stage.module, Reader)
    for field in ReadFields.model_fields.keys() & reader.config.model_fields.keys():
        message = f"{name} is not a format: its Config has the field {field}, which every source has already."
        draft.add_at_key(format_at, message)
        return None, None
    own = {field: value for field, value in read.items() if field not in ReadFields.model_fields}
    if isinstance(own.get("bodies"), dict) and "bodies" in reader.config.model_fields:
        own["bodies"], code = _load_bodies(draft, own["bodies"], (*at, "bodies"))
        stage = replace(stage, code={**stage.code, **code})
    common = ReadFields.model_fields
    config = load_config(draft, reader.config, own, at, also_allowed=common, elsewhere=_NEXT_TO_READ)
    if config is not None and not check_config(draft, stage.module, name, config, at, format_at):
        return None, None
    return stage, config


def _load_bodies(draft: Draft, raw: Mapping[str, Any], at: Path) -> tuple[dict[str, OtherStage], Code]:
    """The formats that read bodies of an archive's records, with their settings, and the user's own code for them."""
    bodies, code = {}, dict[str, SourceFile]()
    for name, values in raw.items():
        stage = import_stage(draft, "format", name, (*at, name), known_formats(name))
        if stage is None:
            continue
        if not isinstance(values, dict | None):
            draft.add((*at, name), f"{dotted((*at, name))} must be a mapping of settings, not {show(values)}.")
            continue
        reader = stage_of(stage.module, Reader)
        config = load_config(draft, reader.config, values or {}, (*at, name))
        if reader.body is None or reader.version is None:
            what = "reads no records of archives" if reader.body is None else "needs a version to read records"
            draft.add_at_key((*at, name), f"{dotted((*at, name))}: the format {name} {what}. Remove it.")
        elif config is not None and check_config(draft, stage.module, name, config, (*at, name)):
            bodies[name] = OtherStage(module=stage.module, config=config)
            code |= stage.code
    return bodies, code


def check_markup(draft: Draft, sources: Mapping[str, Source], routes: Mapping[str, tuple[Step, ...]]) -> None:
    """Add a mistake for every source of markup whose route does not extract text from it."""
    for name, source in sources.items():
        fields = dict(source.config).get("fields")
        mapped = fields.html if isinstance(fields, Fields) and "html" in fields.model_fields_set else None
        has_markup = mapped or stage_of(source.module, Reader).markup
        if has_markup and name in routes and not any(map(extracts, routes[name])):
            why = f"fields.html names {show(mapped)}" if mapped else f"format: {source.format} reads pages"
            draft.add(
                ("sources", name, "read", "fields" if mapped else "format"),
                f"sources.{name}: {why}, but no step of its route extracts text from markup, so its documents would "
                f"have no text. Add - extract to its steps (kind {source.kind}).",
            )


def check_images(draft: Draft, sources: Mapping[str, Source], routes: Mapping[str, tuple[Step, ...]]) -> None:
    """Add a mistake for every source that keeps page images which no step of its route reads."""
    for name, source in sources.items():
        if "images" not in columns_of_source(source) or name not in routes:
            continue
        steps = ((stage_of(step.module), step.config) for step in routes[name])
        if not any(isinstance(stage, DocumentStage) and "images" in stage.reads_of(config) for stage, config in steps):
            draft.add(
                ("sources", name, "read", "images"),
                f"sources.{name}: read.images keeps page images, but no step of its route reads them, so scanned "
                f"documents would have no text and no reason. Add a step that reads images to its steps (kind "
                f"{source.kind}), or remove images.",
            )


def _patterns(draft: Draft, texts: tuple[str, ...], at: Path) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for index, text in enumerate(texts):
        pattern = locate_pattern(text, draft.folder)
        if pattern in found:
            draft.add((*at, index), f"{dotted((*at, index))}: {text!r} is in the list twice. Remove one.")
        draft.check_scheme((*at, index), pattern)
        found[pattern] = None
    return tuple(found)
