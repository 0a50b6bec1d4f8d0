"""Croissant metadata of an exported dataset: JSON-LD after https://docs.mlcommons.org/croissant/docs/croissant-spec.html"""

import hashlib
import json
from typing import Any

import pyarrow as pa

from gristmill.counted import counted
from gristmill.query.export.dataset_card import DATA, MEANINGS, Exported, license_names

_ENCODINGS = {"parquet": "application/x-parquet", "jsonl.zst": "application/jsonlines+zstd"}


def croissant(told: Exported) -> bytes:
    """croissant.json."""
    encoding = _ENCODINGS[told.format]
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
        for name, (file_bytes, digest, _) in told.files.items()
    ]
    whole = {
        "@type": "cr:FileSet",
        "@id": "files",
        "name": "files",
        "containedIn": [{"@id": name} for name in told.files],
        "encodingFormat": encoding,
        "includes": f"data/train-*.{told.format}",
    }
    is_one = len(files) == 1
    read_from = {"fileObject": {"@id": files[0]["@id"]}} if is_one else {"fileSet": {"@id": whole["@id"]}}
    made = {
        "@context": DATA["croissant_context"],
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": told.name,
        "description": f"{counted(told.documents, 'document')} that Gristmill made from the recipe {told.name}. "
        "See README.md.",
        "license": license_names(told),
        "version": f"1.0.0+{version_of(told)}",
        "inLanguage": list(told.languages),
        "distribution": files if is_one else [*files, whole],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "documents",
                "name": "documents",
                "description": "One record for each document.",
                "field": [_field(one, told.format, read_from) for one in told.schema],
            }
        ],
    }
    return json.dumps(made, ensure_ascii=False, indent=2).encode() + b"\n"


def version_of(told: Exported) -> str:
    """A short name for the content of all files."""
    return hashlib.sha256("".join(digest for _, digest, _ in told.files.values()).encode()).hexdigest()[:12]


def _field(column: pa.Field, file_format: str, read_from: dict[str, Any]) -> dict[str, Any]:
    name = f"documents/{column.name}"
    kind, repeated = column.type, pa.types.is_list(column.type)
    extract = {"column": column.name} if file_format == "parquet" else {"jsonPath": f"$['{column.name}']"}
    made = {
        "@type": "cr:Field",
        "@id": name,
        "name": column.name,
        "description": MEANINGS.get(column.name, ""),
        "dataType": _type(kind.value_type if repeated else kind),
        "source": {**read_from, "extract": extract},
    }
    return {**made, "repeated": True} if repeated else made


def _type(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "sc:Boolean"
    if pa.types.is_integer(kind):
        return "sc:Integer"
    if pa.types.is_floating(kind):
        return "sc:Float"
    return "sc:DateTime" if pa.types.is_timestamp(kind) else "sc:Text"
