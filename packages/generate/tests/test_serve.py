"""A server that a worker starts: it is ready before it is used, and it never outlives the worker."""

import os
import signal
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from gristmill.errors import UserError
from gristmill.store.answers import AnswerLog
from gristmill.store.store import Store
from gristmill_generate import generate
from gristmill_generate.serve import LocalServer
from gristmill_generate.settings import RequestLimits, Serve, ready_path

COMMAND = [sys.executable, "-m", "http.server", "{port}", "--bind", "127.0.0.1"]


def answers(address):
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", urlsplit(address).port)) == 0


def test_a_server_is_ready_when_its_address_is_known_and_gone_when_it_is_stopped():
    server = LocalServer(Serve(command=COMMAND, health="/"))
    address = server.address()
    assert answers(address)
    assert server.address() == address
    server.stop()
    assert not answers(address)


def test_a_server_ends_when_its_worker_is_killed():
    """The worker dies by SIGKILL, so it cannot stop anything itself."""
    code = (
        "import sys, time\nfrom gristmill_generate.serve import LocalServer\n"
        "from gristmill_generate.settings import Serve\n"
        f"print(LocalServer(Serve(command={COMMAND!r}, health='/')).address(), flush=True)\ntime.sleep(600)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment) as worker:
        address = worker.stdout.readline().strip()
        assert answers(address)
        worker.send_signal(signal.SIGKILL)
    while answers(address):  # until the guard has noticed
        pass


DYING = """
import json, os, sys
from http.server import *
class Dying(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def do_POST(self):
        if os.path.exists(sys.argv[2]):
            print("out of memory", flush=True)
            os._exit(3)
        open(sys.argv[2], "w").close()
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()
        message = {"message": {"content": "yes"}, "finish_reason": "stop"}
        self.wfile.write(json.dumps({"choices": [message]}).encode())
HTTPServer(("127.0.0.1", int(sys.argv[1])), Dying).serve_forever()
"""


def test_a_server_that_ends_while_it_is_in_use_stops_the_run_with_its_last_words(tmp_path):
    """At once, whatever the patience: this one answers a request and ends at the next. The answer is stored."""
    serve = Serve(command=(sys.executable, "-c", DYING, "{port}", str(tmp_path / "answered")))
    config = generate.Config(
        prompts=(ready_path("rephrase"),), model="m", serve=serve, limits=RequestLimits(patience_s=1e6), concurrency=1
    )
    log = AnswerLog(Store(str(tmp_path / "store")), generate.scope_of(config))
    asks = [(generate.make_ask(b'{"messages":[]}' + b" " * n, 0, config), True) for n in range(3)]
    server = LocalServer(serve)
    with pytest.raises(UserError, match=r"(?s)exit code 3.*1 answer .* stored.*out of memory$"):
        generate.obtain(asks, config, log, server)
    server.stop()
    log.close()


def test_a_program_that_does_not_exist_is_named():
    with pytest.raises(UserError, match=r"Its last output: no-such-program: No such file or directory$"):
        LocalServer(Serve(command=("no-such-program",))).address()


def test_a_server_that_does_not_start_is_an_error_with_its_last_words():
    """Without the API key, also where the excerpt begins inside it."""
    code = "import sys; print('sk-abcdef' + 'x' * 1000 + 'sk-abcdef' + 'y' * 1979 + 'no such model'); sys.exit(3)"
    fact = r"ended with exit code 3, so nothing can be generated.*output: PI key\]y+no such model$"
    with pytest.raises(UserError, match=fact):
        LocalServer(Serve(command=[sys.executable, "-c", code])).address("sk-abcdef")
