"""Text from data cannot act on the terminal: every command runs on data full of escape sequences and markup."""

import json
import os
import re
import subprocess
import sys
from html import escape
from types import SimpleNamespace

import numpy as np
import pytest

from gold_pages import write_gold
from gristmill.cli.main import COMMANDS, added_commands, main
from gristmill.cli.shared.screen import complain
from gristmill.printable import MOST_CHARACTERS, MOST_LINES
from gristmill.tokenizer.files import write_json
from gristmill.tokenizer.model import Tokenizer

EVIL = "\x1b]0;owned\x07\x1b[666m\x9b31mx\u202ey\u2066z\u2028\u2029\x7f\x08\r\x85[red][/nothing][link=http://x]:skull:<script>"
"""Terminal title, colour, C1 codes, bidi overrides, separators, delete, backspace, return; markup of rich and HTML."""
IN_A_NAME = EVIL.replace("/", "|") + "\nforged: line"
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
COLOURS = re.compile(r"\x1b\[(\d{1,2}(;\d{1,3})*)?m|\x1b\[(\?25[lh]|\d?[AK])|\r")
"""The sequences that rich itself sends to a terminal; it has no colour 666."""


def quoted(text):
    return json.dumps(text)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A folder with a recipe in which every name that can be hostile is, with dedup steps, a tokenizer and shards."""
    folder = tmp_path_factory.mktemp("hostile")
    prose = "The grain of the mill and the water that have to be with the stone are here for the wheel to turn. "
    records = [
        {
            "text": f"{EVIL} {number // 2} {prose * 9}{EVIL}",
            "id": f"{EVIL}{number}",
            "url": f"http://host/{EVIL}{number}",
        }
        for number in range(24)
    ]
    records.append({"text": f"short {EVIL}", "id": "short", "url": None})
    lines = [json.dumps(record) for record in records]
    name = f"in{IN_A_NAME}.jsonl"
    (folder / name).write_text("\n".join([*lines, "{broken" + EVIL, ""]))
    (folder / "notes.txt").write_text(EVIL)
    (folder / "terms.txt").write_text("3 the\n")
    requests = [{"id": "r", "reason": EVIL, "url_prefixes": ["http://host/"]}]
    (folder / "requests.yaml").write_text(json.dumps(requests))
    (folder / f"evals{IN_A_NAME}").mkdir()
    (folder / f"evals{IN_A_NAME}" / name).write_text(lines[0])
    suite = {"suite": "s", "version": "1", "benchmarks": {"b": {"files": "*.jsonl", "question": "text", "id": "id"}}}
    (folder / f"evals{IN_A_NAME}" / "suite.yaml").write_text(json.dumps(suite))
    write_gold(folder / f"gold{IN_A_NAME}", (EVIL, f"{EVIL}-weakgold"), (EVIL,), 4)
    (folder / f"page{IN_A_NAME}.html").write_text(f"<title>{escape(EVIL)}</title><p>{escape(EVIL)} {prose * 9}</p>")
    empty = np.zeros(0, np.int32)
    write_json(Tokenizer.from_merges("gristmill", empty, empty), folder)
    read = f"{{format: jsonl, paths: ['in*.jsonl'], fields: {{key: id, url: url}}, snapshot: {quoted('(in.*)l')}}}"
    labels = f"domain: {quoted('dom' + EVIL)}, license: {quoted('LicenseRef-' + EVIL)}, tier: A"
    source = f"{{kind: text, read: {read}, {labels}}}"
    (folder / "recipe.yaml").write_text(
        f"recipe: r\nstore: {quoted('./store' + IN_A_NAME)}\nsources:\n  notes: {source}\n"
        "steps:\n  - signals\n  - heuristics: {rules: [gopher_quality]}\n  - exact_dedup\n  - near_dedup\n"
        "  - signals: {blocked_list: terms.txt}\n"
        "  - safety: {min_blocked: 1, max_blocked_share: 0}\n"
        "tokenizer: {file: tokenizer.json}\nshards: {seq_len_tokens: 64}\n"
        f"mix: {{tokens: 4k, domains: {{{quoted('dom' + EVIL)}: 1}}}}\n"
    )
    return folder


@pytest.fixture
def run_command(hostile, monkeypatch, capfd):
    """Run a command in that folder; return its exit code and output."""
    monkeypatch.chdir(hostile)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gristmill" + EVIL, *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        output = capfd.readouterr()
        return SimpleNamespace(code=ended.value.code or 0, out=output.out, err=output.err)

    return run


READ_COMMANDS = (
    "run recipe.yaml",
    "plan recipe.yaml",
    "status recipe.yaml",
    "funnel recipe.yaml",
    "inspect recipe.yaml -n 30 --full",
    "clusters recipe.yaml --full",
    "inspect recipe.yaml --dropped",
    "funnel recipe.yaml --by source",
    "audit recipe.yaml",
    "bias recipe.yaml --step heuristics --edge 5",
    "bias recipe.yaml --step heuristics --edge 5 --html biasEVIL.html",
    "report recipe.yaml --out runEVIL.html",
    "disclose recipe.yaml --out disclosedEVIL.html",
    "whatif recipe.yaml heuristics.gopher_quality.min_words=100000",
    "verify recipe.yaml",
    "gc recipe.yaml --dry-run",
    "sample recipe.yaml --batch 4",
    "sample recipe.yaml",
    "shards verify recipe.yaml",
    "shards find recipe.yaml 00000000000000000000000000000000",
    "lineage recipe.yaml --sample 0 --token 0 --prove",
    "lineage recipe.yaml EVIL",
    "tokenizer show tokenizer.json EVIL",
    "tokenizer audit tokenizer.json --out reportEVIL --text DOMAIN=notes.txt --sizes 300",
    "init newEVIL.yaml",
    "sql recipe.yaml select*from/**/documents",
    "sql recipe.yaml select*from/**/verdicts --csv",
    "export recipe.yaml --out exportedEVIL",
    "budget --params 7e9",
    "steps",
    "takedown check requests.yaml recipe.yaml",
    "suite show evalsEVIL -n 3",
    "extractor evaluate goldEVIL --tools resiliparse",
    "extractor train goldEVIL --out trainedEVIL --force",
    "extractor show pageEVIL.html --out shownEVIL.html",
    "extractor show goldEVIL/warc/pages.warc.gz --number 1 --out shown2EVIL.html",
    "versions recipe.yaml",
    "versions show recipe.yaml",
    "run recipe.yaml --sample 50%",
    "diff recipe.yaml storeEVIL@r-sample-50pct -n 30",
    "canaries recipe.yaml -n 2",
    "watch recipe.yaml --against storeEVIL@r-sample-50pct",
)
"""Commands that a user would run on the data; `EVIL` is replaced by the hostile text."""
MISTAKES = (
    "EVIL",
    "run --EVIL",
    "run EVIL.yaml",
    "run bad.yaml",
    "status store@EVIL",
    "status EVIL@v1",
    "run recipe.yaml --until EVIL",
    "run recipe.yaml --tag EVIL",
    "run recipe.yaml --executor EVIL",
    "run recipe.yaml --workers EVIL",
    "takedown check EVIL recipe.yaml",
    "takedown receipt recipe.yaml --before EVIL --out receipt",
    "takedown verify EVIL",
    "suite check EVIL",
    "extractor evaluate EVIL",
    "extractor evaluate goldEVIL --tools EVIL",
    "extractor train EVIL --out new",
    "extractor train goldEVIL --out recipe.yaml/EVIL",
    "extractor show EVIL",
    "extractor show goldEVIL/warc/pages.warc.gz --url EVIL",
    "extractor show recipe.yaml --url EVIL-none",
    "lineage recipe.yaml --sample EVIL --token 0",
    "inspect recipe.yaml --stage EVIL",
    "inspect recipe.yaml --source EVIL",
    "inspect recipe.yaml -n EVIL",
    "funnel recipe.yaml --by EVIL",
    "audit recipe.yaml --step EVIL",
    "bias recipe.yaml --step EVIL",
    "bias recipe.yaml --step heuristics --by EVIL",
    "bias recipe.yaml --step heuristics --score EVIL",
    "bias recipe.yaml --step heuristics --terms EVIL",
    "bias recipe.yaml --step heuristics --html EVIL/EVIL",
    "audit recipe.yaml --type EVIL",
    "whatif recipe.yaml EVIL",
    "report recipe.yaml --page EVIL --out page.html",
    "ablate recipe.yaml EVIL --suite EVIL",
    "mix propose EVIL --floor EVIL",
    "whatif recipe.yaml heuristics.EVIL=EVIL",
    "verify recipe.yaml --recompute EVIL",
    "sample recipe.yaml --group EVIL",
    "shards find recipe.yaml EVIL",
    "shards EVIL",
    "sample EVIL",
    "tokenizer show EVIL",
    "tokenizer show tokenizer.json --ids EVIL",
    "init EVIL/EVIL",
    "steps EVIL",
    'sql recipe.yaml select*from"EVIL"',
    "sql recipe.yaml select*from/**/documents --parquet EVIL/EVIL",
    "export recipe.yaml --out EVIL/EVIL",
    "export recipe.yaml --out new --columns EVIL",
    "export recipe.yaml --out new --format EVIL",
    "export recipe.yaml --out new --file-size EVIL",
    "budget --params EVIL",
    "versions EVIL",
    "versions EVIL recipe.yaml",
    "versions show recipe.yaml EVIL",
    "versions tag recipe.yaml r EVIL",
    "versions reproduce recipe.yaml --into recipe.yaml/EVIL",
    "diff EVIL EVIL",
    "diff recipe.yaml EVIL EVIL",
)


def arguments(line, stand_in):
    return [word.replace("EVIL", stand_in).replace("DOMAIN", EVIL.replace("=", "-")) for word in line.split()]


def check(line, output, mode=""):
    for name, text in (("stdout", output.out), ("stderr", output.err)):
        match = FORBIDDEN.search(text)
        assert match is None, f"{line}: {match[0]!r} in {name}: {text[max(0, match.start() - 80) : match.end() + 20]!r}"
        assert "Traceback" not in text, f"{line}: {text}"
        assert not re.search("^forged", text, re.M), f"{line} {mode}: {text}"


@pytest.mark.slow
def test_no_command_sends_raw_data_to_the_terminal(hostile, run_command):
    """Every command prints tables and JSON for hostile keys, URLs, names, texts, licenses, domains and snapshots."""
    elsewhere = {"ablate", "mix", "explore", "quality"}  # they have their own tests, or show no text of others
    assert {line.split()[0] for line in READ_COMMANDS} == {*COMMANDS, *added_commands()} - elsewhere
    shown = 0
    for line in READ_COMMANDS:
        output = run_command(*arguments(line, IN_A_NAME))
        assert output.code in (0, 1), f"{line}: {output}"
        check(line, output)
        shown += "\\x1b]0;owned" in output.out
        if line.startswith(("init", "index", "export")):
            line += "2"
        in_json = run_command(*arguments(line, IN_A_NAME), "--json")
        check(line, in_json, "as JSON")
        for json_line in in_json.out.splitlines():
            json.loads(json_line)
    assert shown > 10  # the data is shown in escaped form
    for path in (
        hostile / f"bias{IN_A_NAME}.html",
        hostile / f"shown{IN_A_NAME}.html",
    ):
        page = path.read_text()
        assert "<script" not in page
        assert "&lt;script&gt;" in page
        assert not FORBIDDEN.search(page)
    first = json.loads(run_command("inspect", "recipe.yaml", "--json").out.splitlines()[0])
    assert EVIL in first["text"]  # programs get the raw data
    assert EVIL in first["url"]


@pytest.mark.slow
def test_a_terminal_gets_only_our_own_escape_sequences(hostile, run_command, monkeypatch):
    """On a terminal, rich sends progress bars and styles; no other sequence gets through."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    for line in ("run recipe.yaml --store terminal", *READ_COMMANDS[1:14]):
        output = run_command(*arguments(line, IN_A_NAME))
        assert "\x1b[" in output.out + output.err or not output.out.startswith(("source", "stage")), line
        for text in (output.out, output.err):
            check(line, SimpleNamespace(out=COLOURS.sub("", text), err=""))


def test_error_messages_have_no_escape_sequences(hostile, run_command):
    """Unknown commands, options, files and recipes with hostile names each give one escaped message."""
    assert run_command("run", "recipe.yaml").code == 0
    (hostile / "bad.yaml").write_text(f"recipe: {quoted(EVIL)}\nseed: {quoted(EVIL)}\n{quoted(EVIL)}: 1\nsources: 3\n")
    for line in MISTAKES:
        output = run_command(*arguments(line, IN_A_NAME))
        assert output.code == 2, f"{line}: {output}"
        check(line, output)
        assert output.out == ""
        assert (
            "owned" in output.err
            or line.startswith(("ablate", "mix"))
            or line.endswith(("--workers EVIL", "-n EVIL", "--ids EVIL", "--sample EVIL --token 0"))
        ), f"{line}: {output.err}"


def test_a_pipe_gets_raw_decoded_bytes_and_a_terminal_does_not(hostile, run_command, monkeypatch):
    """`tokenizer show --ids` writes raw bytes to a pipe; on a terminal they are escaped."""
    shown = json.loads(run_command("tokenizer", "show", "tokenizer.json", EVIL, "--json").out)
    ids = " ".join(str(token["id"]) for token in shown["tokens"])
    assert run_command("tokenizer", "show", "tokenizer.json", "--ids", ids).out == EVIL
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True, raising=False)
    output = run_command("tokenizer", "show", "tokenizer.json", "--ids", ids)
    check("show", output)
    assert "owned" in output.out


def test_a_traceback_has_no_escape_sequences(tmp_path):
    """Tracebacks, warnings and library output all pass through the guarded streams."""
    code = (
        "import sys, warnings\n"
        "from gristmill.cli import main\n"
        f"evil = {EVIL + IN_A_NAME!r}\n"
        "def fail():\n    print(evil)\n    warnings.warn(evil)\n    raise ValueError(evil)\n"
        "main.make_app = lambda names: lambda **_: fail()\n"
        "main.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120, check=False)
    assert done.returncode == 1
    assert b"ValueError" in done.stderr
    assert b"UserWarning" in done.stderr
    for text in (done.stdout.decode(), done.stderr.decode()):
        assert "owned" in text
        assert not FORBIDDEN.search(text)


@pytest.mark.slow
def test_output_of_a_step_in_a_worker_is_escaped_too(project):
    """A worker has its own streams, guarded like those of the command."""
    (project.folder / "in" / "00.jsonl").write_text(json.dumps({"text": f"seen {EVIL}"}) + "\n")
    project.write_recipe("  - stagebox.noisy\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "gristmill", "run", str(project.recipe)]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert b"seen \\x1b]0;owned" in done.stderr
    assert not FORBIDDEN.search(done.stderr.decode())


def test_a_stream_with_a_small_encoding_causes_no_traceback(tmp_path):
    """Standard output shows the code of a character that it cannot encode."""
    calls = "say('\\u2502'), Screen().print('\\u6570\\ud800')"
    code = f"from gristmill.cli.shared.screen import *\nspeaking(lambda: ({calls}))"
    environment = {"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, timeout=120, check=False, text=True
    )
    assert done.stdout.split() == ["\\u2502", "\\u6570\\ud800"], done


def test_a_long_message_is_shortened_in_the_middle(capsys):
    """The fact comes first and the fix last; a line between them says how much is left out."""
    for text in ("\n".join(map(str, range(1000))), "0" + "x" * 100_000 + "999"):
        complain(f"FACT {text} FIX")
        printed = capsys.readouterr().err
        assert printed.count("\n") <= MOST_LINES + 1
        assert len(printed) <= MOST_CHARACTERS + 100
        assert printed.startswith("gristmill: FACT 0")
        assert printed.endswith("999 FIX\n")
        assert "left out here" in printed
