"""Other tools that read PDF files: `PEERS bench/_pdf_peers.py TOOL < FILES`, in a Python that has them installed.

FILES are paths, one a line. For each it prints a JSON object: file, text, cpu_s. It imports no Gristmill.
"""

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable

MARKUP = re.compile(r"</?(?:u|sub|sup|br|b|i)\s*/?>")


def pdf_inspector() -> Callable[[str], str]:
    import pdf_inspector

    return lambda path: MARKUP.sub("", pdf_inspector.process_pdf(path).markdown or "")


def docling_parse() -> Callable[[str], str]:
    from docling_parse.pdf_parser import DoclingPdfParser

    parser = DoclingPdfParser(loglevel="fatal")

    def read(path: str) -> str:
        document = parser.load(path_or_stream=path, lazy=True)
        pages = (page for _, page in document.iterate_pages())
        text = "\n".join(cell.text for page in pages for cell in page.textline_cells)
        document.unload()
        return text

    return read


def pdfminer() -> Callable[[str], str]:
    from pdfminer.high_level import extract_text

    return extract_text


def pypdfium2() -> Callable[[str], str]:
    import pypdfium2

    def read(path: str) -> str:
        document = pypdfium2.PdfDocument(path)
        return "\n".join(page.get_textpage().get_text_range() for page in document)

    return read


def pdftotext() -> Callable[[str], str]:
    command = os.environ.get("PDFTOTEXT", "pdftotext")
    return lambda path: subprocess.run([command, path, "-"], capture_output=True, check=True).stdout.decode()


TOOLS = {
    "pdf-inspector": pdf_inspector,
    "docling-parse": docling_parse,
    "pdfminer.six": pdfminer,
    "pdftotext": pdftotext,
    "pypdfium2": pypdfium2,
}


def used() -> float:
    """CPU seconds of this process and of those it waited for."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def main() -> None:
    read = TOOLS[sys.argv[1]]()
    files = sys.stdin.read().split("\n")
    for number, file in enumerate(filter(None, [files[0], *files])):
        before = used()
        try:
            text = read(file)
        except Exception as error:
            print(f"{sys.argv[1]}: {file}: {error}", file=sys.stderr)
            text = ""
        if number:  # the first file is read twice, to load what the tool loads late
            print(json.dumps({"file": file, "text": text, "cpu_s": used() - before}), flush=True)


if __name__ == "__main__":
    main()
