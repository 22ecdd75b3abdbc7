"""The page at /docs in a real browser: forms are filled in, sent and answered, and nobody else is asked."""

import json
import shutil

import pytest

from support.service.process import ServiceProcess

playwright = pytest.importorskip("playwright.sync_api", reason="NO PLAYWRIGHT here: /docs is not tried in a browser")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="NO CHROMIUM here: /docs is not tried in a browser")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with ServiceProcess(tmp_path_factory.mktemp("service")) as started:
        yield started


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        with_sandbox = {"executable_path": CHROMIUM, "args": ["--no-sandbox"]}  # root has none
        started = driver.chromium.launch(**with_sandbox)
        yield started
        started.close()


@pytest.fixture
def page(browser, service):
    """The page with the administrator's token filled in; what the browser asks for is in `asked`."""
    opened = browser.new_page()
    opened.asked, opened.troubles = [], []
    opened.on("request", lambda request: opened.asked.append(request.url))
    opened.on("console", lambda said: said.type == "error" and opened.troubles.append(said.text))
    opened.goto(f"{service.url}/docs")
    opened.fill("#token", service.token)
    yield opened
    opened.close()


def sent(page, method, path, answered, fields=None):
    """Open an operation, fill its form in, send it, and read what is shown once it has been answered so."""
    form = page.locator(f"form[data-method={method}][data-path='{path}']")
    page.locator(f"details[id='{method.lower()}{path}'] > summary").click()
    for name, value in (fields or {}).items():
        form.locator(f"input[name={name}]").fill(value)
    form.get_by_role("button", name="Send").click()
    playwright.expect(form.locator("output")).to_contain_text(answered, timeout=30_000)
    return form, form.locator("output").inner_text()


def test_a_newcomer_makes_a_schema_subscribes_and_looks_by_forms_alone(page, service):
    sent(page, "POST", "/v1/schemas", "\n201 ")
    _, shown = sent(page, "POST", "/v1/subscriptions", "\n201 ")
    made = json.loads(shown.partition("\n201 Created\n")[2])["id"]
    assert service.registered() == [made]
    sent(page, "GET", "/v1/subscriptions", made, {"limit": "10"})
    sent(page, "DELETE", "/v1/subscriptions/{id}", "\n204 ", {"id": made})
    assert service.registered() == []
    assert page.troubles == []
    assert {url.split("/")[2] for url in page.asked} == {service.url.removeprefix("http://")}


def test_a_refusal_is_shown_as_it_is(page):
    page.fill("#token", "plr_wrong")
    _, shown = sent(page, "GET", "/v1/principals", "\n401 ")
    assert '"code"' in shown


def test_a_stream_is_shown_as_it_comes_until_it_is_stopped(page):
    form, _ = sent(page, "GET", "/v1/stream", "\n200 ")
    form.get_by_role("button", name="Stop").click()
    playwright.expect(form.locator("output")).to_contain_text("200")


def test_what_a_name_has_in_it_is_no_other_path(page):
    _, shown = sent(page, "DELETE", "/v1/principals/{name}", "\n404 ", {"name": "../schemas"})
    assert shown.startswith("DELETE /v1/principals/..%2Fschemas\n")
