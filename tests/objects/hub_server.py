"""The endpoints of the Hugging Face Hub that its client library needs to list and read the files of a dataset."""

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "hf_SecretOfThisTest"


class Hub(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.revisions = {}
        """Revision (a commit, or a branch) -> path -> bytes."""
        self.is_private = False
        self.requests = []
        """(method, path) of every request, in order."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"

    def close(self):
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def handle_any(self):
        url = urlsplit(self.path)
        path, query = unquote(url.path), parse_qs(url.query)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append((self.command, path))
        if self.server.is_private and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.answer(401, {"error": "Invalid credentials"}, X_Error_Code="RepoNotFound")
        found = re.fullmatch(r"/api/datasets/our/set(?:/(revision|tree|paths-info)/([^/]+)/?(.*))?", path)
        if found is None:
            return self.resolve(path)
        kind, revision, below = found[1] or "revision", found[2] or "main", found[3] or ""
        files = self.server.revisions.get(revision)
        if files is None:
            return self.answer(404, {"error": "Invalid rev id"}, X_Error_Code="RevisionNotFound")
        if kind == "revision":
            return self.answer(200, {"id": "our/set", "sha": revision, "private": False, "tags": [], "siblings": []})
        if kind == "tree":
            recursive = query.get("recursive") in (["true"], ["True"])
            return self.answer(200, _tree(files, below, recursive))
        wanted = parse_qs(body.decode()).get("paths", []) if not body.startswith(b"{") else json.loads(body)["paths"]
        every = {one["path"]: one for one in _tree(files, "", True)}
        return self.answer(200, [every[one] for one in wanted if one in every])

    do_GET = do_POST = do_HEAD = handle_any

    def resolve(self, path):
        found = re.fullmatch(r"/datasets/our/set/resolve/([^/]+)/(.+)", path)
        data = self.server.revisions.get(found[1], {}).get(found[2]) if found else None
        if data is None:
            return self.answer(404, {"error": "Entry not found"}, X_Error_Code="EntryNotFound")
        about = {"ETag": f'"{_oid(data)}"', "X_Repo_Commit": found[1], "Accept_Ranges": "bytes"}
        part = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if part is None:
            return self.answer(200, data, **about)
        start, stop = int(part[1]), min(len(data), int(part[2]) + 1)
        return self.answer(206, data[start:stop], Content_Range=f"bytes {start}-{stop - 1}/{len(data)}", **about)


def _oid(data):
    return hashlib.sha1(data).hexdigest()


def _tree(files, below, recursive):
    found = {}
    prefix = f"{below}/" if below else ""
    for path, data in sorted(files.items()):
        if not path.startswith(prefix):
            continue
        parts = path[len(prefix) :].split("/")
        for depth in range(1, len(parts)):
            if depth == 1 or recursive:
                folder = prefix + "/".join(parts[:depth])
                found[folder] = {"type": "directory", "path": folder, "oid": _oid(folder.encode()), "size": 0}
        if len(parts) == 1 or recursive:
            found[path] = {"type": "file", "path": path, "oid": _oid(data), "size": len(data)}
    return list(found.values())
