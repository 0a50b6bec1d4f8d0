"""Records: small JSON files that contain their own name and a checksum.

    {"record": "tasks/3f9c….json", "sha256": "…", "body": {…}}

The checksum covers the bytes of the body in the file. A record with the wrong name, a changed digit or a missing end is
damaged. Without this check, a changed count in a task record would be trusted forever.
"""

import hashlib
from typing import Any

import orjson

from gristmill.errors import UserError

DAMAGED = "is damaged, or was written by another version of Gristmill"


class DamagedRecord(UserError):
    """A record exists but does not match its checksum or name, or is not a file."""

    def __init__(self, fact: str) -> None:
        super().__init__(
            f"{fact}, so its content is unknown. Restore it from a copy, or delete it if you do not need it."
        )
        self.fact = fact
        """Which file is damaged, and how."""

    def __reduce__(self) -> tuple[type["DamagedRecord"], tuple[str]]:
        return DamagedRecord, (self.fact,)


class MissingKey(DamagedRecord, KeyError):
    """A record lacks a key. Also a KeyError, for code that reads records of several versions of Gristmill."""

    __str__ = UserError.__str__  # KeyError would show a repr


class RecordBody(dict[str, Any]):
    """The content of a record, or a part of it. Reading a missing key raises MissingKey, which names file and key."""

    def __init__(self, file: str, value: dict[str, Any], levels: int) -> None:
        super().__init__(value)
        self.file = file
        if levels:
            self.update({key: RecordBody(file, one, levels - 1) for key, one in value.items() if isinstance(one, dict)})

    def __missing__(self, key: str) -> Any:
        raise MissingKey(f'{self.file} has no "{key}": it {DAMAGED}')


def pack(name: str, body: object) -> bytes:
    """The bytes of a record."""
    content = orjson.dumps(body, option=orjson.OPT_INDENT_2)
    return b'%s"sha256":"%s","body":%s}\n' % (_opening(name), hashlib.sha256(content).hexdigest().encode(), content)


def unpack(name: str, data: bytes) -> Any:
    """The content of a record. Raises DamagedRecord if its name or checksum does not match."""
    opening = _opening(name)
    start = len(opening) + len('"sha256":"') + 64 + len('","body":')
    content = memoryview(data)[start:-2]  # a copy would double the memory
    head = b'%s"sha256":"%s","body":' % (opening, hashlib.sha256(content).hexdigest().encode())
    if not (data.startswith(head) and data.endswith(b"}\n") and len(data) >= start + 2):
        raise DamagedRecord(f"{name} {DAMAGED}")
    return orjson.loads(content)


def _opening(name: str) -> bytes:
    return b'{"record":%s,' % orjson.dumps(name)


def digest(value: object) -> str:
    """A short name for any JSON value; key order does not matter."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]
