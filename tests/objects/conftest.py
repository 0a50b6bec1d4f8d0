"""S3 on this machine: our own server and, if they are installed, moto and s3rver, each in its own process.

`make test-objects` installs both. Each test has its own bucket.
"""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import urllib.request
import uuid
from pathlib import Path

import pytest
from tests.objects.s3_server import KEY_ID, Server

from gristmill.objects.system import ObjectSystem

COMMANDS = {
    "moto": lambda port, _: ["moto_server", "-H", "127.0.0.1", "-p", str(port)],
    "s3rver": lambda port, folder: ["s3rver", "-d", folder, "-a", "127.0.0.1", "-p", str(port)],
}


@pytest.fixture(scope="session", params=["ours", *COMMANDS])
def s3_address(request):
    """The address of each installed server."""
    pytest.importorskip("obstore", reason="the client for object stores is not installed: pip install 'gristmill[s3]'")
    if request.param == "ours":
        server = Server()
        yield server.address
        server.close()
        return
    program = COMMANDS[request.param](0, "")[0]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed: run make test-objects")
    with tempfile.TemporaryDirectory() as folder, open(Path(folder, "log"), "w+") as log:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        process = subprocess.Popen(COMMANDS[request.param](port, folder), stdout=log, stderr=log, env=environment)
        try:
            while not _answers(port):
                if process.poll() is not None:
                    pytest.skip(f"{program} does not start: {Path(log.name).read_text()[-300:]}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def _answers(port):
    with socket.socket() as one:
        one.settimeout(1)
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def s3_server():
    """Our own server, which records the requests."""
    pytest.importorskip("obstore", reason="the client for object stores is not installed: pip install 'gristmill[s3]'")
    server = Server()
    yield server
    server.close()


@pytest.fixture
def s3(s3_address, use_s3):
    """A new bucket, with credentials in the environment."""
    return use_s3(s3_address)


@pytest.fixture
def use_s3(monkeypatch):
    """Set the environment for a server, make a bucket and return its URI."""

    def use(address):
        for name in [name for name in os.environ if re.match("AWS_|GOOGLE_", name)]:
            monkeypatch.delenv(name)
        point_at(monkeypatch, address)
        bucket = f"b{uuid.uuid4().hex[:12]}"
        make_bucket(address, bucket)
        return f"s3://{bucket}"

    yield use
    ObjectSystem.clear_instance_cache()


def point_at(monkeypatch, address):
    """Use another address for the same bucket, with new clients."""
    ObjectSystem.clear_instance_cache()
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY_ID)


def make_bucket(address, bucket):
    """Make a bucket, which obstore cannot do; these servers need no credentials for it."""
    urllib.request.urlopen(urllib.request.Request(f"{address}/{bucket}", method="PUT")).close()
