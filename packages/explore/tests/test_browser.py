"""The explorer in Chromium: what a person does with mouse and keyboard, and what hostile documents try."""

import json
import re
import shutil
import threading
from importlib.util import find_spec

import pytest
import uvicorn
from conftest import Project
from explored import TOKEN, explored, write_hostile

from gristmill.report.corpus.report import make_report
from gristmill_explore.app import create_app
from gristmill_explore.live.page import LivePages
from gristmill_explore.pages import explorer_pages

PATIENCE_MS = 300_000
"""A page that does not answer for so long is a fault, however busy the machine is."""
REFUSED = "status of 400"
"""What the browser logs for a wrong number that a person typed."""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("playwright") is None, reason="Playwright is not installed: make test-browser"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]


class ThreadServer(uvicorn.Server):
    """A server in a thread."""

    def install_signal_handlers(self) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory, in_this_process):
    """Pages of hostile documents, next to an earlier version, on a port of this machine."""
    project = write_hostile(Project(tmp_path_factory.mktemp("hostile")))
    with explored(project, project.folder / "labels.jsonl", "v1") as found:
        config = uvicorn.Config(found.app, port=0, log_level="critical", lifespan="off")
        server = ThreadServer(config)
        listener = config.bind_socket()
        port = listener.getsockname()[1]
        groups = [*explorer_pages(found.explorer), LivePages(found.run.store, "hostile").group()]
        config.app = create_app("hostile <b>", groups, TOKEN, port)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        found.address = f"http://127.0.0.1:{port}"
        yield found
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser, site):
    """A page with the token. Dialogs, script errors, refused content and requests elsewhere fail the test."""
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    faults = []
    page.on("dialog", lambda dialog: (faults.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda one: faults.append(one.text) if one.type == "error" and REFUSED not in one.text else None)
    page.on("request", lambda one: None if one.url.startswith((site.address, "data:,")) else faults.append(one.url))
    page.goto(f"{site.address}/?token={TOKEN}")
    yield page
    context.close()
    assert faults == []


def shown(page):
    """The number of documents that the list announces."""
    return int(page.locator("#results > p[role=status]").inner_text().split()[0].replace(",", ""))


def test_filter_search_and_open(page, site):
    """A filter changes the list and the address; a search marks its hit; Enter opens a document."""
    everything = shown(page)
    with page.expect_response(re.compile("reason=too_few_words")):
        page.locator("select[name=reason]").select_option("too_few_words")
    page.wait_for_url("**reason=too_few_words**")
    assert 0 < shown(page) < everything
    page.get_by_role("link", name="Clear").click()
    with page.expect_response(re.compile("text=wheel")):
        page.get_by_label("Text has").fill("wheel")
    page.locator("mark", has_text="wheel").first.wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.locator("h2", has_text="Steps").wait_for()
    assert "/document/" in page.url
    page.keyboard.press("u")
    page.locator("ol.documents").wait_for()
    assert page.get_by_label("Text has").input_value() == "wheel"


def test_labels_by_keyboard(page, site):
    """j, g and b label what is selected; the file has it at once, the precision is shown, and the focus stays."""
    page.goto(f"{site.address}/?reason=too_few_words")
    with page.expect_response(re.compile("/label$")):
        for key in "jbjg":  # faster than the answers
            page.keyboard.press(key)
    page.locator(".document:nth-child(1) button[aria-pressed=true]", has_text="Bad").wait_for()
    page.locator(".document:nth-child(2) button[aria-pressed=true]", has_text="Good").wait_for()
    page.locator("#precision", has_text="of 2 labelled").wait_for()
    assert "1 of 2 labelled are bad" in page.locator("#precision").inner_text()
    assert "50%" in page.locator("#precision").inner_text()
    assert [json.loads(line)["score"] for line in site.labels.read_text().splitlines()] == [0, 5]
    page.keyboard.press("Enter")
    page.locator("h2", has_text="Steps").wait_for()
    page.keyboard.press("n")
    page.keyboard.type("g and b are letters here")
    page.get_by_role("button", name="Bad").click()
    page.locator("button[aria-pressed=true]", has_text="Bad").wait_for()
    assert json.loads(site.labels.read_text().splitlines()[-1])["note"] == "g and b are letters here"


def test_a_label_before_any_selection_is_for_the_first_document(page, site):
    """It is selected by that, visibly; k, b then label the same one."""
    page.goto(f"{site.address}/?source=notes&order=shuffled")
    with page.expect_response(re.compile("/label$")):
        page.keyboard.press("g")
    page.locator(".document:nth-child(1) button[aria-pressed=true]", has_text="Good").wait_for()
    assert page.locator("a.open[data-selected]").count() == 1
    assert page.locator(".document:nth-child(1) a.open[data-selected]").count() == 1
    with page.expect_response(re.compile("/label$")):
        page.keyboard.press("b")
    page.locator(".document:nth-child(1) button[aria-pressed=true]", has_text="Bad").wait_for()
    with page.expect_response(re.compile("/label$")):
        page.locator(".document:nth-child(1) button", has_text="Remove label").click()


def test_the_slider_changes_numbers_and_copies_yaml(page, site):
    """Arrow keys move it; come and go follow at once; the button copies the whole step, with its other settings."""
    page.goto(f"{site.address}/whatif")
    page.get_by_role("link", name="gopher_quality.min_words").click()
    page.locator("#slider").focus()
    for value in range(9, 13):
        with page.expect_response(re.compile(f"value={value}$")):
            page.keyboard.press("ArrowRight")
    page.locator("#yaml", has_text="min_words: 12").wait_for()
    assert page.locator("#value").input_value() == "12"
    assert int(page.locator("td.bad").inner_text().lstrip("−")) > 0
    page.get_by_role("button", name="Copy YAML").click()
    page.locator("#copied", has_text="copied").wait_for()
    settings = "min_words: 12", "min_stop_words: 1", "min_letter_words_share: 0.1", "max_mean_word_chars: 100"
    lines = ["- heuristics:", "    gopher_quality:", *(f"      {one}" for one in settings)]
    assert page.evaluate("navigator.clipboard.readText()") == "\n".join(lines)
    page.locator("#value").fill("many")
    page.locator("#effect [role=alert]").wait_for()


def test_two_versions_side_by_side(page, site):
    """From the table of changed verdicts to a document with both."""
    page.get_by_role("link", name="Versions").click()
    page.locator("tr", has_text="too_few_words").get_by_role("link").first.click()
    page.locator(".document a.open").first.click()
    other = page.locator("section", has_text="In the other version").first
    assert "Before: too_few_words" in other.inner_text()
    assert "Now: kept" in other.inner_text()


def test_a_bar_leads_to_its_documents(page, site):
    """By the mouse on the picture, and by the table of its numbers; no number has an exponent."""
    page.goto(f"{site.address}/histograms?score=words")
    page.get_by_text("Numbers").click()
    rows = page.locator("details tbody tr")
    low, high, kept, removed, _ = rows.last.locator("td").all_inner_texts()
    number = int(kept) + int(removed)
    assert not re.search(r"\de[+-]\d", page.locator("#histogram").inner_text())
    rows.last.get_by_role("link").click()
    page.locator("ol.documents").wait_for()
    assert shown(page) == number > 0
    page.go_back()
    page.locator("svg.plot a").filter(has_text=f"{low} to {high}:").click()
    page.locator("ol.documents").wait_for()
    assert shown(page) == number


def test_everything_can_be_reached_by_keyboard(page, site):
    """Tab reaches every control with a visible focus; keys find the search field and the help; labels name inputs."""
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.locator("dialog[open]").wait_for()
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
    for path in ("/", "/document/0", "/histograms", "/labels", "/versions", "/live"):
        page.goto(f"{site.address}{path}")
        unnamed = "e => e.filter(x => !x.labels?.length && !x.getAttribute('aria-label') && x.type !== 'hidden').length"
        assert page.locator("input, select, textarea").evaluate_all(unnamed) == 0
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(outline) == "solid"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_a_phone(page, site, scheme):
    """Long words, URLs and tables do not make the page scroll sideways."""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 400, "height": 800})
    slider = "/whatif?setting=all%2Fheuristics.gopher_quality.min_letter_words_share"
    for path in ("/", "/document/0", "/histograms?score=words", "/whatif", slider, "/labels", "/versions", "/live"):
        page.goto(f"{site.address}{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, path
        assert page.locator("svg text").count() == 0, path  # it would shrink with its picture


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_can_be_read_on_a_phone(browser, site, tmp_path, scheme):
    """Words in pictures are as large as printed, in the colour of the page; every picture has a table; nothing runs."""
    (tmp_path / "report.html").write_text(make_report(site.explorer.view, site.explorer.against))
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    page.set_default_timeout(PATIENCE_MS)
    faults = []
    page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
    page.on("console", lambda one: faults.append(one.text))
    page.on("request", lambda one: None if one.url.startswith("file:") else faults.append(one.url))
    page.goto((tmp_path / "report.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    sizes = "e => e.map(x => parseFloat(getComputedStyle(x).fontSize) * x.getScreenCTM().a)"
    assert min(page.locator("svg text").evaluate_all(sizes)) >= 10
    colours = "e => e.map(x => getComputedStyle(x).fill)"
    words = "rgb(0, 0, 0)" if scheme == "light" else "rgb(255, 255, 255)"
    assert {*page.locator("svg text").evaluate_all(colours)} == {words}
    pictures = page.locator("[role=img]")
    assert pictures.count() > 5
    tables = "e => e.map(x => (x.closest('.cells figure') ?? x.closest('section')).querySelectorAll('tr').length)"
    assert min(pictures.evaluate_all(tables)) > 1
    page.close()
    assert faults == []


def test_hostile_documents_stay_text(page, site):
    """On every page with hostile texts nothing runs, loads or leaves; their markup is visible as text."""
    for path in ("/", "/document/0", "/document/3", "/?text=script", "/?url=javascript", "/labels"):
        page.goto(f"{site.address}{path}")
        page.wait_for_load_state("networkidle")
        assert page.locator("main :is(script, img, [onerror], [onload], div[hx-trigger=load])").count() == 0
        assert page.locator("a[href^='javascript:']").count() == 0
    page.goto(f"{site.address}/document/0")
    assert "<script>alert(1)</script>" in page.locator("h1").inner_text()
