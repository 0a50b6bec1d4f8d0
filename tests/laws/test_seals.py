"""Law 8: a record that carries its own hash is rejected when any field, including the hash, is changed or missing."""

import json
import re

import pytest

from gristmill.errors import UserError
from gristmill.loader import Loader
from gristmill.shardformat.manifest import read_manifest
from gristmill.shardformat.receipt import read_receipt, read_whole_receipt
from gristmill.store.records import DamagedRecord, pack, unpack
from loader.small import all_documents, two_phases, write_receipt

NOT_SEALED = {"files"}
"""The locations of a manifest's files. Each file is checked against its own hash."""


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """One file of each kind, and its reader."""
    folder = tmp_path_factory.mktemp("sealed")
    manifest = two_phases().write(folder / "shards")
    receipt = write_receipt(folder / "takedown", manifest, all_documents(manifest)[:2]) / "receipt.json"
    return {
        "manifest": (manifest, read_manifest),
        "receipt": (receipt, read_receipt),
        "receipt for people": (receipt, read_whole_receipt),
        "receipt of a loader": (receipt, lambda path: Loader(manifest, mask=path).close()),
    }


@pytest.mark.parametrize("kind", ["manifest", "receipt", "receipt for people", "receipt of a loader"])
def test_a_sealed_record_is_rejected_without_any_of_its_fields(sealed, kind, tmp_path):
    """Each field in turn is removed, changed and set to null; the unchanged file is readable."""
    path, read = sealed[kind]
    read(path)
    content = json.loads(path.read_text())
    fields = content.keys() - NOT_SEALED
    assert fields & {"seal", "hash"}
    for field in fields:
        without = {name: value for name, value in content.items() if name != field}
        for changed in (without, {**content, field: None}, {**content, field: [content[field]]}):
            if changed == content:  # `after` of a receipt is already null
                continue
            (tmp_path / path.name).write_text(json.dumps(changed))
            with pytest.raises(UserError):
                read(tmp_path / path.name)


def test_a_receipt_without_its_seal_is_an_error_message(sealed, tmp_path):
    """The message gives the fact, the consequence and the fix."""
    content = json.loads(sealed["receipt"][0].read_text())
    del content["seal"]
    (tmp_path / "receipt.json").write_text(json.dumps(content))
    message = r"receipt.json was changed after it was written: it has no seal, so .* unknown. Copy it again"
    with pytest.raises(UserError, match=message):
        read_receipt(tmp_path)


@pytest.mark.parametrize(
    "field", [b'"record":"tasks/1f.json",', rb'"sha256":"[0-9a-f]{64}",', rb'"body":\{\s*"rows": 3\s*\}']
)
def test_a_store_record_is_rejected_without_any_of_its_fields(field):
    """One function reads all task, stage, run and version records."""
    data = pack("tasks/1f.json", {"rows": 3})
    assert unpack("tasks/1f.json", data) == {"rows": 3}
    without, cut = re.subn(field, b"", data)
    assert cut == 1
    with pytest.raises(DamagedRecord):
        unpack("tasks/1f.json", without)
