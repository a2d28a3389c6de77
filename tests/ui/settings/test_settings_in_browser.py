"""The Settings view in a real Chromium, with a scripted engine and scripted models."""

from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from app.ui import Running, Services
from app.ui.settings.view import SECTIONS
from tests.accessibility import grave_by_day_and_by_night, grave_findings
from tests.fakes import ScriptedEngine
from tests.page_driver import PageDriver
from tests.support.waiting import until

pytestmark = pytest.mark.browser


@pytest.fixture
def person(page_driver: PageDriver) -> PageDriver:
    page_driver.page.click("#to-settings")
    page_driver.page.wait_for_selector("#settings-general")
    return page_driver


def go_to(person: PageDriver, section: str) -> None:
    person.page.click(f"#settings-nav [data-section={section}]")
    person.page.wait_for_selector(f"#settings-{section}")


def test_every_section_is_accessible_has_an_address_and_keeps_what_is_typed(
    person: PageDriver, services: Services
) -> None:
    for section in SECTIONS:
        go_to(person, section)
        assert person.page.url.endswith(f"#/settings/{section}")
        assert grave_findings(person.page) == [], section
    chosen, opacity = (
        "[aria-pressed=true][disabled]",
        "found => found.map(one => getComputedStyle(one).opacity)",
    )
    assert set(person.page.eval_on_selector_all(chosen, opacity)) == {"1"}, "it is as legible as the rest"
    go_to(person, "data")
    person.page.click("#self-check")
    person.page.wait_for_selector("#checks li")
    assert grave_by_day_and_by_night(person.page) == []
    go_to(person, "about")
    go_to(person, "general")
    person.page.fill("#default-system textarea", "Be brief.")
    until(lambda: services.settings.chats.system == "Be brief.")
    person.page.go_back()
    person.page.wait_for_selector("#settings-about")
    person.page.click("#to-chat")
    person.page.click("#new-chat")
    person.open_tab("settings")
    person.page.wait_for_function("document.querySelector('#system textarea').value === 'Be brief.'")


def test_a_file_of_another_kind_is_answered_in_place_and_settings_are_shown_as_saved_after_a_reload(
    person: PageDriver, services: Services
) -> None:
    go_to(person, "data")
    picture = {"name": "photo.png", "mimeType": "image/png", "buffer": b"\x89PNG\r\n\x1a\n"}
    for button, line, answer in (
        ("#restore-backup", "#not-restored", "photo.png is not a whole backup of Foresight"),
        ("#import-chats", "#imported", "Choose a file that Foresight or another chat app exported."),
    ):
        with person.page.expect_file_chooser() as chooser:
            person.page.click(button)
        chooser.value.set_files(picture)
        person.page.wait_for_selector(f"{line} .problem >> text={answer}")
    assert person.page.locator(".toast-body").count() == 0

    page = person.page
    go_to(person, "general")
    page.fill("#default-system textarea", "Be brief.")
    page.check("#rolling-context input")
    go_to(person, "connect")
    page.fill("#api-origins :is(input, textarea)", "http://localhost:3000")
    page.click("#allow-origins")
    until(lambda: services.settings.api_origins and services.settings.chats.rolling_context)
    until(lambda: services.settings.chats.system == "Be brief.")
    page.click("#to-chat")  # `reload` waits for the message box
    person.reload()
    page.wait_for_function(
        "document.querySelector('#default-system textarea').value === 'Be brief.'", timeout=9000
    )
    page.wait_for_function("document.querySelector('#rolling-context input').checked", timeout=9000)
    origins = "document.querySelector('#api-origins :is(input, textarea)').value"
    page.wait_for_function(f"{origins} === 'http://localhost:3000'", timeout=9000)


def test_programs_are_connected_by_keyboard_and_refused_once_the_key_is_renewed(
    person: PageDriver, running: Running
) -> None:
    person.page.focus("#settings-nav [data-section=connect]")
    person.page.keyboard.press("Enter")
    person.page.wait_for_selector("#settings-connect")
    person.page.focus("#serve-api input")
    person.page.keyboard.press("Space")
    person.page.wait_for_selector("#connection-details .field")
    assert person.text("#connection-details .field code") == f"{running.endpoint.origin}/v1"
    key = person.text("#connection-details .field:nth-child(2) code")
    command = str(person.page.get_attribute(".example [data-copy-text]", "data-copy-text"))
    assert key in command and api_status(running, key) == 200
    assert grave_by_day_and_by_night(person.page) == []
    person.page.click(".renew summary")
    person.page.click(".renew button")
    person.page.wait_for_selector("#connection-details .done")
    assert (api_status(running, key), api_status(running, key)) == (401, 401)
    person.page.click("#serve-api input")
    person.page.wait_for_selector("#connection-details .field", state="detached")
    assert api_status(running, key) == 404


def api_status(running: Running, key: str) -> int:
    """What a program with this key gets."""
    request = Request(f"{running.endpoint.origin}/v1/models", headers={"Authorization": f"Bearer {key}"})
    try:
        with urlopen(request, timeout=300) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def choose_lookahead(person: PageDriver) -> None:
    person.page.click("#decoder input")
    person.page.click("[role=option] >> text=Lookahead, fixed sizes")
    person.page.wait_for_selector("#cost [data-decoder=lookahead]")


@pytest.mark.thorough
def test_decoder_sizes_show_their_cost_and_are_used_for_the_next_reply(
    person: PageDriver, engine: ScriptedEngine
) -> None:
    go_to(person, "advanced")
    person.page.wait_for_selector("#rows")
    assert person.page.is_visible("#rows") and not person.page.is_visible("#window")
    choose_lookahead(person)
    assert person.page.is_visible("#window") and not person.page.is_visible("#rows")
    assert person.text("#cost b") == "30 rows per step"
    person.page.fill("#window input[type=number]", "15")
    person.page.wait_for_function("document.querySelector('#cost b').innerText === '60 rows per step'")
    person.page.click("#advised-sizes button >> nth=0")
    person.page.wait_for_function("document.querySelector('#guesses input[type=number]').value === '15'")
    person.page.click("#to-chat")
    person.send("Hi")
    person.wait_for_reply()
    asked = engine.requests[0].options.decoding
    assert (asked.decoder, asked.window, asked.ngram, asked.guesses) == ("lookahead", 15, 5, 15)

    person.page.click("#to-settings")
    go_to(person, "general")
    person.page.click("#restore")
    person.page.wait_for_selector("#cost [data-decoder=auto]", state="attached")
    person.page.click("#restored button")
    person.page.wait_for_selector("#cost [data-decoder=lookahead]", state="attached")


@pytest.mark.thorough
def test_the_appearance_changes_at_once_survives_a_reload_and_follows_another_page(
    person: PageDriver, services: Services
) -> None:
    go_to(person, "general")
    person.page.click("#looks label >> text=Dark")
    person.page.wait_for_selector("#looks [data-chosen=dark]", state="attached")
    assert person.is_dark()
    person.page.wait_for_timeout(300)
    person.reload()
    person.page.wait_for_selector("#looks [data-chosen=dark]", state="attached")
    assert person.is_dark()
    person.page.click("#looks label >> text=Light")
    assert not person.is_dark()
    person.page.wait_for_selector("#looks [data-chosen=light]", state="attached")
    person.page.keyboard.press("ArrowRight")
    person.page.keyboard.press("ArrowLeft")
    person.page.keyboard.press("ArrowRight")
    person.page.wait_for_selector("#looks [data-chosen=dark]", state="attached")
    person.page.wait_for_timeout(500)
    assert person.is_dark()
    assert person.page.evaluate("document.activeElement.value") == "dark", "the keyboard stays where it is"
    until(lambda: services.settings.theme == "dark")
    services.choose(theme="light", text_size="130")
    person.page.wait_for_selector("#looks [data-chosen=light]", state="attached")
    assert not person.is_dark()
    size = "parseFloat(getComputedStyle(document.querySelector('#message textarea')).fontSize)"
    assert person.page.evaluate(size) == pytest.approx(20.8), "16 px, 30% larger"
    person.page.click("#looks label >> text=Small")
    assert person.page.evaluate(size) == pytest.approx(14.4)
    until(lambda: services.settings.text_size == "90")
    person.reload()
    person.page.wait_for_selector("#looks [data-chosen='90']", state="attached")
    assert person.page.evaluate(size) == pytest.approx(14.4)


@pytest.mark.thorough
def test_the_self_check_passes_chats_are_deleted_and_the_app_quits(
    person: PageDriver, running: Running
) -> None:
    go_to(person, "data")
    person.page.click("#self-check")
    person.page.wait_for_selector("#checks li")
    assert person.page.locator("#checks i.failed").count() == 0
    assert person.page.locator("#checks i.passed").count() == 6

    person.page.click("#to-chat")
    person.send("Hello")
    person.wait_for_reply()
    person.page.click("#to-settings")
    go_to(person, "data")
    person.page.click("#delete-chats summary")
    person.page.click("#delete-chats [data-do=delete-chats]")
    person.page.click("#to-chat")
    person.page.wait_for_selector("#welcome")
    assert person.page.locator(".chat-line").count() == 0

    person.page.click("#to-settings")
    go_to(person, "general")
    person.page.click("#quit")
    assert running.endpoint.quit_requested.wait(300)
    assert "ended" in person.text("#goodbye")


@pytest.mark.thorough
@pytest.mark.parametrize("width", [400, pytest.param(1366, marks=pytest.mark.thorough)])
def test_the_view_fits_its_window(browser: Any, running: Running, width: int) -> None:
    with PageDriver(browser, running.url, size={"width": width, "height": 800}) as driver:
        driver.page.click("#to-settings")
        for section in SECTIONS:
            go_to(driver, section)
            assert driver.page.evaluate("document.documentElement.scrollWidth") <= width
