"""The progress of a run as OpenLineage events, written to a file or sent to a server.

A run is one run of the job that its recipe is. Its inputs are the sources, and its output is the corpus in the store.
A server that is slow or gone never holds up a run: events wait in a short queue for a thread that sends them.

https://openlineage.io/spec/2-0-2/OpenLineage.json
"""

import base64
import json
import os
import queue
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import gristmill
from gristmill.counted import counted
from gristmill.engine.publish.journal import FINISHED, RUNNING
from gristmill.errors import UserError
from gristmill.log import Log
from gristmill.places import is_url, local_path, without_secrets
from gristmill_explore.live.openmetrics import output_file

PRODUCER = f"https://pypi.org/project/gristmill/{gristmill.__version__}"
SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
URL, ENDPOINT, KEY = "OPENLINEAGE_URL", "OPENLINEAGE_ENDPOINT", "OPENLINEAGE_API_KEY"
NAMESPACE, DISABLED = "OPENLINEAGE_NAMESPACE", "OPENLINEAGE_DISABLED"
"""The environment variables of the OpenLineage clients."""
EVERY_S = 30.0
"""Seconds between two RUNNING events."""
MOST_WAITING = 32
"""Events that wait for the server."""
PATIENCE_S = 5.0
"""Seconds to wait for the server: for one answer, and for all of them at the end of a run."""
_FACETS = "https://openlineage.io/spec/facets"
_VERSIONS = {
    "ErrorMessageRunFacet": "1-0-1",
    "ProcessingEngineRunFacet": "1-1-1",
    "JobTypeJobFacet": "2-0-4",
    "DatasetVersionDatasetFacet": "1-0-1",
    "OutputStatisticsOutputDatasetFacet": "1-0-2",
}
_LOG = Log("openlineage")


def observe(target: str | None) -> "LineageEvents | None":
    """The observer `openlineage`: `target` is a file or a server, by default what the environment names."""
    target = target or os.environ.get(URL)
    is_disabled = os.environ.get(DISABLED, "").strip().lower() == "true"
    return None if is_disabled or not target else LineageEvents(target)


class LineageEvents:
    """Turns the records of a run into events: START, RUNNING now and then, and COMPLETE, FAIL or ABORT."""

    def __init__(self, where: str) -> None:
        """`where` is the URL of a server, or a file that gets one JSON object per line."""
        path = local_path(where)
        if path is None and not _is_server(where):
            raise UserError(
                f"{without_secrets(where)} cannot take lineage events, so nothing was run. Name an http or https URL, "
                "or a file."
            )
        self._deliver = _Server(where).post if path is None else _EventFile(path).append
        self._namespace = os.environ.get(NAMESPACE, "gristmill")
        self._sent_at: float | None = None

    def __call__(self, record: Mapping[str, Any]) -> None:
        is_last = record["status"] != RUNNING
        now = time.monotonic()
        if self._sent_at is None:
            self._deliver(make_event("START", record, self._namespace), False)
        elif not is_last and now - self._sent_at < EVERY_S:
            return
        elif not is_last:
            self._deliver(make_event("RUNNING", record, self._namespace), False)
        self._sent_at = now
        if is_last:
            self._deliver(make_event(_ending(record["status"]), record, self._namespace), True)


def _is_server(url: str) -> bool:
    """Whether a URL names a server, and its port, if any, is a number."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _ending(status: str) -> str:
    return {FINISHED: "COMPLETE", "stopped: Interrupted": "ABORT"}.get(status, "FAIL")


def make_event(kind: str, record: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """An event of this kind about a run, by its record."""
    progress = {"secondsLeft": record["seconds_left"], "stages": record["stages"]}
    about = {"version": gristmill.__version__, "name": "gristmill"}
    run_facets = {
        "processing_engine": _facet("ProcessingEngineRunFacet", **about),
        "gristmill_progress": {"_producer": PRODUCER, "_schemaURL": SCHEMA.replace("RunEvent", "RunFacet"), **progress},
    }
    if record["error"] is not None:
        error = {"message": record["error"], "programmingLanguage": "Python"}
        run_facets["errorMessage"] = _facet("ErrorMessageRunFacet", **error)
    job = {"processingType": "BATCH", "integration": "GRISTMILL", "jobType": "RECIPE"}
    return {
        "eventType": kind,
        "eventTime": record["started" if kind == "START" else "written"],
        "run": {"runId": str(uuid.UUID(record["run"])), "facets": run_facets},
        "job": {
            "namespace": namespace,
            "name": record["recipe"],
            "facets": {"jobType": _facet("JobTypeJobFacet", **job)},
        },
        "inputs": [_dataset(path) for paths in record["sources"].values() for path in paths],
        "outputs": [_output(record)],
        "producer": PRODUCER,
        "schemaURL": SCHEMA,
    }


def _output(record: Mapping[str, Any]) -> dict[str, Any]:
    found = _dataset(record["store"])
    found["name"] = f"{found['name'].rstrip('/')}@{record['recipe']}"
    kept = sum(counts["kept"] for counts in record["funnel"].values())
    found["outputFacets"] = {"outputStatistics": _facet("OutputStatisticsOutputDatasetFacet", rowCount=kept)}
    if record["version"] is not None:
        found["facets"] = {"version": _facet("DatasetVersionDatasetFacet", datasetVersion=record["version"])}
    return found


def _dataset(location: str) -> dict[str, Any]:
    """The name of a location by the rules of OpenLineage: the authority, and the path in it."""
    if not is_url(location) or (path := local_path(location)) is not None:
        return {"namespace": "file", "name": location if not is_url(location) else path}
    scheme, _, rest = location.partition("://")
    authority, _, path = rest.partition("/")
    return {"namespace": f"{scheme}://{authority}", "name": path or "/"}


def _facet(kind: str, /, **fields: object) -> dict[str, Any]:
    return {"_producer": PRODUCER, "_schemaURL": f"{_FACETS}/{_VERSIONS[kind]}/{kind}.json#/$defs/{kind}", **fields}


class _EventFile:
    def __init__(self, path: str) -> None:
        self._path = output_file(Path(path), '{"eventType"')

    def append(self, event: Mapping[str, Any], _: bool) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would lose the event, and a server could make a run fetch any address."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


class _Server:
    """Sends events in a thread. Those that the server does not take are lost, which is logged once."""

    def __init__(self, url: str) -> None:
        parts, key = urlsplit(url), os.environ.get(KEY)
        address = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        self._url = f"{address.rstrip('/')}/{os.environ.get(ENDPOINT, 'api/v1/lineage').lstrip('/')}"
        self._login = f"Bearer {key}" if key else None
        if "@" in parts.netloc:
            if key:
                raise UserError(
                    f"The URL for lineage events has a user, and {KEY} is set, so nothing was run. Remove one of them."
                )
            user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
            self._login = f"Basic {base64.b64encode(user.encode()).decode()}"
        self._waiting: queue.Queue[bytes] = queue.Queue(MOST_WAITING)
        self._left = 0
        self._changed = threading.Condition()
        self._has_warned = False
        threading.Thread(target=self._send_all, name="gristmill-lineage", daemon=True).start()

    def post(self, event: Mapping[str, Any], is_last: bool) -> None:
        """Add an event to the queue; after the last one, wait a few seconds for the server."""
        try:
            self._waiting.put_nowait(json.dumps(event).encode())
        except queue.Full:
            self._warn("it does not answer fast enough")
            return
        with self._changed:
            self._left += 1
            if is_last and not self._changed.wait_for(lambda: not self._left, PATIENCE_S):
                self._warn(f"{counted(self._left, 'event')} not answered within {PATIENCE_S:.0f} s")

    def _send_all(self) -> None:
        while True:
            body = self._waiting.get()
            try:
                request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"}, method="POST")
                if self._login is not None:
                    request.add_unredirected_header("Authorization", self._login)  # never to another server
                with _OPENER.open(request, timeout=PATIENCE_S):
                    pass
            except urllib.error.HTTPError as error:  # its reason is the server's text, which may repeat the key
                self._warn(f"HTTP {error.code}")
            except Exception as error:
                self._warn(str(error))
            with self._changed:
                self._left -= 1
                self._changed.notify_all()

    def _warn(self, why: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            where = without_secrets(self._url)
            _LOG.warn(f"{where} does not take lineage events ({without_secrets(why)}). The run goes on without them.")
