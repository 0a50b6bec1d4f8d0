"""One bucket: objects by key. Requests are retried and counted, and the last failure becomes one clear message."""

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from gristmill import objects
from gristmill.errors import UserError
from gristmill.install_command import install_extra, install_library
from gristmill.objects.patience import IN_RUN, TRIES, RequestFault, Unreachable, fault_of, patiently
from gristmill.objects.requests import count

Answer = TypeVar("Answer")

PIECE_BYTES = 8 << 20
"""The bytes of one read of a large object, and of one part of a multipart upload."""
PIECES_AT_ONCE = 4
"""Parallel requests for one object: enough for most networks, with 32 MiB of buffers."""
SINGLE_BYTES = 4 * PIECE_BYTES
"""Larger objects are read and written in several pieces."""
PAGE_KEYS = 1000
"""The keys in one page of a listing."""
_OPTIONS = {
    "allow_http": True,  # the endpoint URL decides; the default is https
    "connect_timeout": timedelta(seconds=5),
    "read_timeout": timedelta(seconds=15),
    "timeout": timedelta(seconds=180),
}
_NAMES = {"s3": "S3", "gs": "Google Cloud Storage"}
_WHERE = {"s3": "AWS_ENDPOINT_URL and AWS_REGION", "gs": "GOOGLE_APPLICATION_CREDENTIALS"}
_HOW = {
    "s3": "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or use a role of the machine",
    "gs": "Set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account, or use a role of the machine",
}

_used_by: int | None = None
"""The process that sent the first request. A fork does not have obstore's threads, so its requests would hang."""


class Info(NamedTuple):
    """The metadata of an object."""

    key: str
    size: int
    etag: str
    modified: float
    """Unix time in seconds, by the store's clock."""


class Bucket:
    """A bucket of S3 (`s3`) or Google (`gs`)."""

    def __init__(self, scheme: str, name: str) -> None:
        self.uri = f"{scheme}://{name}"
        self._scheme = scheme
        self._has_answered = IN_RUN.is_set()
        self._store = self._opened(scheme, name, 0)
        self._upload_store = self._opened(scheme, name, TRIES)
        """A client with its own retries: a multipart upload must not restart because one part failed."""

    def get(self, key: str) -> memoryview:
        import obstore

        def act() -> memoryview:
            count(gets=1)
            data = memoryview(obstore.get(self._store, key).bytes())
            count(bytes_fetched=len(data))
            return data

        return self._request("read", key, act)

    def get_range(self, key: str, start: int, stop: int) -> memoryview:
        """Read a byte range; the result is shorter if the object ends before `stop`."""
        import obstore

        def act() -> memoryview:
            count(gets=1)
            try:
                data = memoryview(obstore.get_range(self._store, key, start=start, end=stop))
            except obstore.exceptions.BaseError as error:
                if fault_of(error).status == 416:  # the object ends before `start`
                    return memoryview(b"")
                raise
            count(bytes_fetched=len(data))
            return data

        return self._request("read", key, act) if stop > start else memoryview(b"")

    def get_pieces(self, key: str, size: int, take: Callable[[int, memoryview], Any]) -> None:
        """Read a large object in parallel pieces and pass each to `take` with its offset."""

        def fetch(start: int) -> None:
            take(start, self.get_range(key, start, min(size, start + PIECE_BYTES)))

        with ThreadPoolExecutor(PIECES_AT_ONCE) as pool:
            list(pool.map(fetch, range(0, size, PIECE_BYTES)))

    def get_large(self, key: str, size: int) -> bytearray | memoryview:
        """Read an object of this size, in pieces if it is large."""
        if size <= SINGLE_BYTES:
            return self.get(key)
        whole = bytearray(size)

        def take(start: int, piece: memoryview) -> None:
            whole[start : start + len(piece)] = piece

        self.get_pieces(key, size, take)
        return whole

    def put(self, key: str, data: bytes | memoryview) -> None:
        import obstore

        view = memoryview(data).cast("B")  # obstore only accepts unsigned bytes
        size = len(view)
        if size > SINGLE_BYTES:
            self._upload(key, view, size)
            return

        def act() -> None:
            count(puts=1, bytes_sent=size)
            obstore.put(self._store, key, view, use_multipart=False)

        self._request("written", key, act)

    def put_file(self, key: str, path: Path) -> None:
        size = path.stat().st_size
        if size > SINGLE_BYTES:
            self._upload(key, path, size)
        else:
            self.put(key, path.read_bytes())

    def _upload(self, key: str, data: Any, size: int) -> None:
        import obstore

        def act() -> None:
            count(puts=2 - -size // PIECE_BYTES, bytes_sent=size)
            obstore.put(
                self._upload_store,
                key,
                data,
                use_multipart=True,
                chunk_size=PIECE_BYTES,
                max_concurrency=PIECES_AT_ONCE,
            )

        self._request("written", key, act)

    def create(self, key: str, data: bytes) -> None:
        """Write an object only if it does not exist; otherwise raise FileExistsError. A store that ignores the
        condition (If-None-Match) always writes, so two concurrent creators may both believe that they succeeded.
        """
        import obstore

        def act() -> None:
            count(puts=1, bytes_sent=len(data))
            try:
                obstore.put(self._store, key, data, mode="create")
            except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError):
                raise FileExistsError(key) from None

        self._request("written", key, act)

    def head(self, key: str) -> Info:
        import obstore

        def act() -> Info:
            count(heads=1)
            return _info(obstore.head(self._store, key))

        return self._request("read", key, act)

    def delete(self, key: str) -> None:
        import obstore

        def act() -> None:
            count(deletes=1)
            obstore.delete(self._store, key)

        self._request("removed", key, act)

    def pages(self, prefix: str, after: str | None = None) -> Iterator[list[Info]]:
        """Objects below a folder, sorted by key, one page per request, starting after the key `after`."""
        import obstore

        stream: Any = None
        is_full = False

        def act() -> list[Any] | None:
            nonlocal stream
            count(lists=int(stream is None or is_full))  # a page that is not full is the last
            if stream is None:
                stream = iter(obstore.list(self._store, prefix or None, offset=after, chunk_size=PAGE_KEYS))
            try:
                return next(stream, None)
            except Exception:
                stream = None  # the next attempt continues after the last key
                raise

        while page := self._request("listed", prefix, act):
            after, is_full = page[-1]["path"], len(page) == PAGE_KEYS
            yield [_info(one) for one in page]

    def folder(self, prefix: str) -> tuple[list[str], list[Info]]:
        """Folders and objects directly below a folder."""
        import obstore

        def act() -> Any:
            count(lists=1)
            return obstore.list_with_delimiter(self._store, prefix or None)

        found = self._request("listed", prefix, act)
        return list(found["common_prefixes"]), [_info(one) for one in found["objects"]]

    def _request(self, verb: str, key: str, act: Callable[[], Answer]) -> Answer:
        global _used_by
        if _used_by is None:
            _used_by = os.getpid()
        elif _used_by != os.getpid():
            raise UserError(
                f"{self.uri} cannot be used in this process: it was forked after its parent had opened connections, "
                "which a fork does not inherit. Start processes without fork: pass "
                "multiprocessing_context='forkserver' or 'spawn' to the DataLoader."
            )
        try:
            answer = patiently(act, partial(self._refused, verb, key), self._has_answered, self.uri)
        except FileNotFoundError as error:
            if fault_of(error).code == "NoSuchBucket":
                raise self._no_bucket() from None
            self._has_answered = True
            raise FileNotFoundError(f"{self.uri}/{key}") from None
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # a panic inside obstore
                raise
            raise self._refused(verb, key, RequestFault(None, "", str(error))) from None
        self._has_answered = True
        return answer

    # Messages

    def _no_bucket(self) -> Unreachable:
        return Unreachable(
            f"{self.uri}: the bucket does not exist. Nothing was read or written. Create it or correct the name; if it "
            f"is in another place, check {_WHERE[self._scheme]}.",
            "the bucket does not exist",
        )

    def _refused(self, verb: str, key: str, fault: RequestFault) -> Unreachable:
        where = f"{self.uri}/{key}" if key else self.uri
        kept = "Finished work is kept."
        if fault.code == "NoSuchBucket":
            return self._no_bucket()
        if re.search(r"169\.254\.|metadata\.google", fault.text):  # where a machine with a role gets its keys
            why = f"no credentials for {_NAMES[self._scheme]} were found"
            return Unreachable(f"{where} cannot be {verb}: {why}. {kept} {_HOW[self._scheme]}.", why)
        if fault.status in (401, 403) or "Token" in fault.code:  # ExpiredToken is 400
            why = f"permission denied ({fault.text})"
            return Unreachable(
                f"{where} cannot be {verb}: {why}. {kept} Check the credentials and their permissions for the "
                "bucket: list, read, write and delete.",
                why,
            )
        if fault.status is not None and not fault.may_pass:
            why = f"the store returned {fault.status} ({fault.text})"
            fix = f"Check {_WHERE[self._scheme]}"
            if fault.status == 501:
                fix = "Use a store that supports conditional writes (If-None-Match)"
            return Unreachable(f"{where} cannot be {verb}: {why}. {kept} {fix}.", why)
        why = f"{fault.text}, {'even ' if self._has_answered or fault.status else ''}after several attempts"
        fix = f"Check {_WHERE[self._scheme]}, and the network" if not self._has_answered else "Wait a moment"
        return Unreachable(f"{where} cannot be {verb}: {why}. {kept} {fix}, then run again to continue.", why)

    def _opened(self, scheme: str, name: str, retries: int) -> Any:
        if not objects.is_installed():
            raise UserError(
                f"{self.uri} is in an object store, and the client for it is not installed. Nothing was run. "
                f"Run: {install_extra('s3')}"
            )
        if (why := objects.unfit(scheme, name)) is not None:
            raise UserError(f"{self.uri} cannot be opened: {why} Nothing was run.")
        from obstore.store import GCSStore, S3Store

        more: dict[str, Any] = {"client_options": _OPTIONS, "retry_config": {"max_retries": retries}}
        try:
            if scheme == "gs":
                return GCSStore(name, **more)
            return S3Store(name, credential_provider=_profile(self.uri), **more)
        except UserError:
            raise
        except Exception as error:
            raise Unreachable(
                f"{self.uri} cannot be opened: {fault_of(error).text}. Nothing was run. {_HOW[scheme]}.",
                fault_of(error).text,
            ) from None


def _profile(uri: str) -> Any:
    """The credentials of AWS_PROFILE, read by boto3; None if it is not set or AWS_ACCESS_KEY_ID is."""
    if not os.environ.get("AWS_PROFILE") or os.environ.get("AWS_ACCESS_KEY_ID"):
        return None
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise UserError(
            f"{uri}: AWS_PROFILE is set, but reading profiles needs boto3, which is not installed. Nothing was run. "
            f"Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run: {install_library('boto3')}"
        ) from None
    return Boto3CredentialProvider()


def _info(found: Any) -> Info:
    etag = (found["e_tag"] or "").strip('"')
    return Info(found["path"], int(found["size"]), etag, found["last_modified"].timestamp())
