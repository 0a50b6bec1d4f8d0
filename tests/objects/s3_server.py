"""A small in-memory S3 server with the requests that our client uses. Other servers get the same tests
(conftest.py).
"""

import hashlib
import re
import threading
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import time
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

KEY_ID = "S3RVER"
"""The access key of the only user, the same as in s3rver; any secret is accepted."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.buckets = {}
        """Bucket -> key -> (bytes, ETag, time of writing)."""
        self.uploads = {}
        self.page_keys = 1000
        self.requires_keys = True
        self.requests = []
        """(method, path with its query) of every request, in order."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"

    def close(self):
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self):
        super().setup()
        self.wfile = self.connection.makefile("wb", 1 << 16)  # head and body in one packet

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def refuse(self, status, code, said="No."):
        self.answer(
            status, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{said}</Message></Error>".encode()
        )

    def handle_any(self):
        url = urlsplit(self.path)
        self.query = dict(parse_qsl(url.query, keep_blank_values=True))
        name, _, self.key = unquote(url.path).lstrip("/").partition("/")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append((self.command, self.path))
        if self.command == "PUT" and not self.key:
            self.server.buckets.setdefault(name, {})
            return self.answer(200)
        if self.server.requires_keys and f"Credential={KEY_ID}/" not in self.headers.get("Authorization", ""):
            return self.refuse(403, "InvalidAccessKeyId", "The access key does not exist.")
        with self.server.lock:
            if name not in self.server.buckets:
                return self.refuse(404, "NoSuchBucket", "The bucket does not exist")
            self.objects = self.server.buckets[name]
            return getattr(self, self.command.lower())(body)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = handle_any

    def keep(self, data):
        tag = hashlib.md5(data).hexdigest()
        self.objects[self.key] = (data, tag, time())
        return tag

    def put(self, body):
        if "partNumber" in self.query:
            self.server.uploads[self.query["uploadId"]][int(self.query["partNumber"])] = body
            return self.answer(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
        is_new = self.headers.get("If-None-Match") == "*" or self.headers.get("x-goog-if-generation-match") == "0"
        if is_new and self.key in self.objects:
            return self.refuse(412, "PreconditionFailed")
        return self.answer(200, ETag=f'"{self.keep(body)}"', x_goog_generation="1")

    def post(self, body):
        if "delete" in self.query:
            keys = re.findall(r"<Key>(.*?)</Key>", body.decode())
            for key in keys:
                self.objects.pop(unescape(key, {"&quot;": '"'}), None)
            found = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            return self.answer(200, f"<DeleteResult>{found}</DeleteResult>".encode())
        if "uploads" in self.query:
            upload = f"upload{len(self.server.uploads)}"
            self.server.uploads[upload] = {}
            found = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            return self.answer(200, found.encode())
        parts = self.server.uploads.pop(self.query["uploadId"])
        tag = f"{self.keep(b''.join(parts[number] for number in sorted(parts)))}-{len(parts)}"
        self.objects[self.key] = (self.objects[self.key][0], tag, time())
        found = f"<CompleteMultipartUploadResult><ETag>{tag}</ETag></CompleteMultipartUploadResult>"
        return self.answer(200, found.encode())

    def delete(self, _):
        self.objects.pop(self.key, None)
        return self.answer(204)

    def get(self, _):
        if not self.key:
            return self.list()
        if self.key not in self.objects:
            return self.refuse(404, "NoSuchKey", "The key does not exist")
        data, tag, when = self.objects[self.key]
        about = {"ETag": f'"{tag}"', "Last_Modified": formatdate(when, usegmt=True)}
        if self.command == "HEAD":
            return self.answer(200, Content_Length=str(len(data)), **about)
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted is None:
            return self.answer(200, data, **about)
        start, stop = int(wanted[1]), min(len(data), int(wanted[2]) + 1 if wanted[2] else len(data))
        if start >= len(data):
            return self.refuse(416, "InvalidRange")
        return self.answer(206, data[start:stop], Content_Range=f"bytes {start}-{stop - 1}/{len(data)}", **about)

    head = get

    def list(self):
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter")
        after = self.query.get("continuation-token") or self.query.get("start-after", "")
        most = self.server.page_keys
        keys = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
        folders = set()
        if delimiter:
            below = {key: key[len(prefix) :].partition(delimiter) for key in keys}
            folders = {prefix + first + delimiter for first, found, _ in below.values() if found}
            keys = [key for key in keys if not below[key][1]]
        page = keys[:most]
        found = [f"<IsTruncated>{str(len(keys) > most).lower()}</IsTruncated><KeyCount>{len(page)}</KeyCount>"]
        if len(keys) > most:
            found.append(f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>")
        for key in page:
            data, tag, when = self.objects[key]
            found.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>{_iso(when)}</LastModified>"
                f"<ETag>&quot;{tag}&quot;</ETag><Size>{len(data)}</Size></Contents>"
            )
        found += [f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders)]
        return self.answer(200, f"<ListBucketResult>{''.join(found)}</ListBucketResult>".encode())


def _iso(when):
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
