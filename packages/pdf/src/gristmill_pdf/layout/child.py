"""Reads PDF files in a child process with bounded memory and processor time: pdfium may crash or loop on a bad file.

A worker has one child and uses it for many files. A child first reads a small file of ours, the control, then limits
itself, then answers requests until the pipe closes. If it dies, a new child reads the control and the file again. Only
a file that ends both children is given up, as `pdf_crashed`, and the detail says what ended them: memory, processor
time, or a crash. A child that was killed from outside counts for nothing: another one reads the file. MOST_KILLED in a
row, or one that cannot read the control, are a fault of the machine and raise UserError.

The work of a file is bounded by counts (document.py), which are the same everywhere. The limit on processor time (not
wall time) is a multiple of what the control takes in the same child, so a slower processor has more of it. It is far
above what the counted work needs. Only endless loops reach it, and pages that share content which draws nothing
(blanks, comments, states, clips), since pdfium reads that content without a count.
"""

import atexit
import contextlib
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from functools import partial
from typing import IO, Any, Literal

import orjson

from gristmill.errors import UserError

MORE_MEMORY_BYTES = 1 << 30
"""What a child may allocate in addition to what it needs for the control."""
CONTROLS, CONTROLS_PER_PAGE, CONTROLS_PER_BYTE = 30_000, 500, 0.2
"""The processor time of a file, in control files: CONTROLS, and in addition what its pages or its bytes allow, the
smaller of the two. A control takes two milliseconds on a busy core. Counted work takes at most 5,000 controls, and 0.05
per byte.
"""
MEASURED_CONTROLS = 20
ATTEMPTS = 2
"""The second child reads the file right after the control."""
KILLED = "it was killed"
MOST_KILLED = 3
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What neither pdfium nor a limit sends."""
OUT_OF_MEMORY = 12
"""The exit code of a child whose Python code gets no memory. pdfium ends with SIGABRT then, and only then; failed
checks of it end with SIGTRAP or SIGILL."""
PageImages = bool | Literal["scans"]
"""Which pages are kept as images: those whose text cannot be trusted; "scans": and those whose text is hidden."""
_SCANS = 2
_REQUEST = struct.Struct("<QI?Bi")
"""Bytes of the file, most pages, Markdown, images, and the page to render; READ: none, the document is read."""
READ = -1
_ANSWER = struct.Struct("<Q")
_MOST_ANSWER_BYTES = 1 << 30

COMMAND = ("-m", __name__)
"""The arguments of Python for a child, followed by the bytes that it may allocate in addition."""

CONTROL = b"""%PDF-1.4
1 0 obj <</Type /Catalog /Pages 2 0 R>> endobj
2 0 obj <</Type /Pages /Kids [3 0 R] /Count 1>> endobj
3 0 obj <</Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R /Resources <</Font <</F 5 0 R>>>>>> endobj
4 0 obj <</Length 46>> stream
BT /F 12 Tf 20 100 Td (The mill is open.) Tj ET
endstream endobj
5 0 obj <</Type /Font /Subtype /Type1 /BaseFont /Helvetica>> endobj
trailer <</Root 1 0 R>>
"""
CONTROL_TEXT = "The mill is open."


class _Killed(Exception):
    """A child was killed before it had read the control."""


class PdfChild:
    """The child of this process; it starts when the first file is read."""

    def __init__(self, more_memory_bytes: int = MORE_MEMORY_BYTES) -> None:
        self._more_memory_bytes = more_memory_bytes
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    @property
    def pid(self) -> int:
        """The id of the child; 0 if there is none."""
        return self._process.pid if self._process else 0

    def read(self, data: bytes, max_pages: int, markdown: bool, images: PageImages = False) -> dict[str, Any]:
        """What `document.read_document` returns, or a `drop` if no child survives the file."""
        return self._request(data, max_pages, markdown, _SCANS if images == "scans" else images, READ)

    def render(self, data: bytes, page: int) -> dict[str, Any]:
        """What `document.render_page` returns, or a `drop` if no child survives the file."""
        return self._request(data, 0, False, False, page)

    def _request(self, data: bytes, *settings: int) -> dict[str, Any]:
        causes: list[str] = []
        killed = 0
        with self._lock:
            while len(causes) < ATTEMPTS:
                try:
                    return self._ask(data, *settings)
                except _Killed:
                    cause = KILLED
                except (BrokenPipeError, EOFError):
                    cause = self._end()
                if cause != KILLED:
                    causes.append(cause)
                    continue
                killed += 1
                if killed == MOST_KILLED:
                    raise UserError(
                        f"the process that reads PDF files was killed {MOST_KILLED} times in a row, perhaps because "
                        "memory is short. Finished work is kept. Run again with fewer workers or more memory."
                    )
        both = f"{causes[0]}, twice" if len(set(causes)) == 1 else f"{causes[0]}, then {causes[1]}"
        return {"drop": "pdf_crashed", "detail": f"{both}; a control file was read"}

    def _ask(self, data: bytes, *settings: int) -> dict[str, Any]:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(_REQUEST.pack(len(data), *settings))
        process.stdin.write(data)
        process.stdin.flush()
        return _answer(process.stdout)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._owner == os.getpid():
            return self._process
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, *COMMAND, str(self._more_memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        atexit.register(self.close)
        assert self._process.stdout is not None
        try:
            is_read = _answer(self._process.stdout).get("text") == CONTROL_TEXT
            cause = "its text is wrong"
        except EOFError:
            is_read, cause = False, self._end()
            if cause == KILLED:
                raise _Killed from None
        if not is_read:
            raise UserError(
                f"the process that reads PDF files cannot read its control file: {cause}. Finished work is kept. "
                "Give it more memory, or install pypdfium2 again."
            )
        return self._process

    def _end(self) -> str:
        """Ends the child; returns what ended it, if it had ended."""
        process, self._process = self._process, None
        if process is None:
            return ""
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()
        try:
            code = process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        return _cause(code, self._more_memory_bytes)

    def close(self) -> None:
        """Ends the child, if this process has one."""
        if self._owner == os.getpid():
            self._end()


def _cause(code: int, more_memory_bytes: int) -> str:
    """What ended a child, by its exit code."""
    if -code in _FROM_OUTSIDE:
        return KILLED
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    if code == -signal.SIGXCPU:
        return f"it takes too much processor time ({name})"
    if code in (-signal.SIGABRT, OUT_OF_MEMORY):
        return f"it takes more than {more_memory_bytes >> 20:,} MiB of memory ({name})"
    return f"it crashes the parser ({name})"


def _answer(pipe: IO[bytes]) -> dict[str, Any]:
    """The next answer of a child: JSON, in which images are sizes, and then the bytes of the images."""
    answer: dict[str, Any] = orjson.loads(_exactly(pipe, _size(pipe)))
    if sizes := answer.get("images"):
        answer["images"] = [size and _exactly(pipe, size) for size in sizes]
    return answer


def _send(pipe: IO[bytes], answer: dict[str, Any]) -> None:
    images = answer.get("images") or ()
    data = orjson.dumps({**answer, "images": [png and len(png) for png in images] or None})
    pipe.writelines((_ANSWER.pack(len(data)), data, *filter(None, images)))
    pipe.flush()


def _size(pipe: IO[bytes]) -> int:
    size: int = _ANSWER.unpack(_exactly(pipe, _ANSWER.size))[0]
    if size > _MOST_ANSWER_BYTES:
        raise EOFError
    return size


def _exactly(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _limit(more_bytes: int) -> None:
    import resource

    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more_bytes, now + more_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def allowed_controls(size: int, pages: int) -> float:
    """The processor time for a file with so many bytes and pages, in control files."""
    return CONTROLS + min(CONTROLS_PER_BYTE * size, CONTROLS_PER_PAGE * pages)


def _allow(control_s: float, size: int, pages: int) -> None:
    """Allows the processor time for a file, from now on."""
    import resource

    seconds = int(time.process_time() + control_s * allowed_controls(size, pages)) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _serve() -> None:
    from gristmill_pdf.layout.document import read_document, render_page

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whatever a library prints
    for count in (1, MEASURED_CONTROLS):  # the first one also loads what is compiled
        started = time.process_time()
        for _ in range(count):
            answer = read_document(CONTROL, 1, False, False, lambda pages: None)
    control_s = (time.process_time() - started) / MEASURED_CONTROLS
    _limit(int(sys.argv[1]))
    while True:
        _send(answers, answer)
        head = sys.stdin.buffer.read(_REQUEST.size)
        if len(head) < _REQUEST.size:
            return
        size, max_pages, markdown, images, page = _REQUEST.unpack(head)
        allow = partial(_allow, control_s, size)
        allow(0)
        data = _exactly(sys.stdin.buffer, size)
        if page == READ:
            answer = read_document(data, max_pages, markdown, "scans" if images == _SCANS else bool(images), allow)
        else:
            answer = render_page(data, page)


def main() -> None:
    try:
        _serve()
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


if __name__ == "__main__":
    main()
