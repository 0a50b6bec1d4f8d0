"""Croissant metadata (JSON-LD) of an exported dataset: https://docs.mlcommons.org/croissant/docs/croissant-spec.html"""

import hashlib
import json
from typing import Any

import pyarrow as pa

from gristmill.counted import counted
from gristmill.query.export.dataset_card import DATA, MEANINGS, Exported, license_names

_ENCODINGS = {"parquet": "application/x-parquet", "jsonl.zst": "application/jsonlines+zstd"}


def croissant(exported: Exported) -> bytes:
    """The content of croissant.json."""
    encoding = _ENCODINGS[exported.format]
    files: list[dict[str, Any]] = [
        {
            "@type": "cr:FileObject",
            "@id": name,
            "name": name,
            "contentUrl": name,
            "contentSize": f"{file_bytes} B",
            "encodingFormat": encoding,
            "sha256": digest,
        }
        for name, (file_bytes, digest, _) in exported.files.items()
    ]
    whole = {
        "@type": "cr:FileSet",
        "@id": "files",
        "name": "files",
        "containedIn": [{"@id": name} for name in exported.files],
        "encodingFormat": encoding,
        "includes": f"data/train-*.{exported.format}",
    }
    is_one = len(files) == 1
    read_from = {"fileObject": {"@id": files[0]["@id"]}} if is_one else {"fileSet": {"@id": whole["@id"]}}
    metadata = {
        "@context": DATA["croissant_context"],
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": exported.name,
        "description": f"{counted(exported.documents, 'document')} made by Gristmill from the recipe "
        f"{exported.name}. See README.md.",
        "license": license_names(exported),
        "version": f"1.0.0+{version_of(exported)}",
        "inLanguage": list(exported.languages),
        "distribution": files if is_one else [*files, whole],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "documents",
                "name": "documents",
                "description": "One record for each document.",
                "field": [_field(one, exported.format, read_from) for one in exported.schema],
            }
        ],
    }
    return json.dumps(metadata, ensure_ascii=False, indent=2).encode() + b"\n"


def version_of(exported: Exported) -> str:
    """A short hash of the content of all files."""
    return hashlib.sha256("".join(digest for _, digest, _ in exported.files.values()).encode()).hexdigest()[:12]


def _field(column: pa.Field, file_format: str, read_from: dict[str, Any]) -> dict[str, Any]:
    name = f"documents/{column.name}"
    kind, repeated = column.type, pa.types.is_list(column.type)
    extract = {"column": column.name} if file_format == "parquet" else {"jsonPath": f"$['{column.name}']"}
    entry = {
        "@type": "cr:Field",
        "@id": name,
        "name": column.name,
        "description": MEANINGS.get(column.name, ""),
        "dataType": _type(kind.value_type if repeated else kind),
        "source": {**read_from, "extract": extract},
    }
    return {**entry, "repeated": True} if repeated else entry


def _type(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "sc:Boolean"
    if pa.types.is_integer(kind):
        return "sc:Integer"
    if pa.types.is_floating(kind):
        return "sc:Float"
    return "sc:DateTime" if pa.types.is_timestamp(kind) else "sc:Text"
