"""The page as a service: it answers, it says when it moved, it closes, and it starts without torch."""

from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from app.ui import AppContext, Running, Services, prepare_environment, serve
from tests.support.children import run_python
from tests.ui.conftest import key_of


def read(running: Running, path: str) -> bytes:
    """What the page answers to who has its key."""
    with urlopen(Request(running.endpoint.origin + path, headers=key_of(running))) as answer:
        return bytes(answer.read())


def test_the_page_answers_with_foresights_own_look(shared: Running) -> None:
    page = read(shared, "/").decode()
    assert '"title":"Foresight"' in page
    assert "data-look" in page


def test_the_page_names_nothing_outside(shared: Running) -> None:
    for resource in ("/theme.css", "/favicon.ico"):
        assert b"https://" not in read(shared, resource)


def test_a_taken_port_moves_on_and_says_so(
    shared: Running, services: Services, app_context: AppContext
) -> None:
    assert shared.note == ""
    assert shared.url == f"http://127.0.0.1:{shared.port}/?key={shared.endpoint.key}"
    second = serve(services, app_context, shared.port, open_browser=False)
    assert second.port > shared.port
    assert second.note == f"Port {shared.port} is taken, so Foresight is at {second.url}"
    assert second.endpoint.key != shared.endpoint.key
    second.close()


def test_what_a_browser_is_told_opens_the_page_once(shared: Running) -> None:
    address = shared.endpoint.one_time_url()
    assert shared.endpoint.key not in address
    assert "Set-Cookie" in urlopen(address).headers
    with pytest.raises(HTTPError, match="403"):
        urlopen(address)


def test_without_a_key_everybody_of_this_machine_is_let_in_until_the_page_is_closed(
    services: Services, app_context: AppContext
) -> None:
    page = serve(services, app_context, port=0, open_browser=False, has_key=False)
    assert page.url == f"http://127.0.0.1:{page.port}"
    assert b'"title":"Foresight"' in urlopen(page.url).read()
    page.close()
    page.close()
    page.wait()
    with pytest.raises(URLError):
        urlopen(page.url)


def test_settings_of_the_shell_do_not_open_the_page(tmp_path: Path) -> None:
    shell = {"GRADIO_SHARE": "True", "GRADIO_SERVER_NAME": "0.0.0.0", "PATH": "/bin"}
    prepare_environment(shell, tmp_path)
    assert not {"GRADIO_SHARE", "GRADIO_SERVER_NAME"} & shell.keys()
    assert shell["PATH"] == "/bin"
    assert shell["GRADIO_ANALYTICS_ENABLED"] == "False"
    assert shell["GRADIO_TEMP_DIR"] == str(tmp_path / "gradio")
    assert shell["HF_HUB_DISABLE_TELEMETRY"] == "1"


def modules_after(statement: str) -> set[str]:
    """The top-level modules that a fresh Python holds after this statement."""
    code = (
        f"from tests.support import quicker_modules; quicker_modules.install(); {statement}; "
        "import sys; print(*{name.split('.')[0] for name in sys.modules})"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_the_ui_imports_no_gradio() -> None:
    assert "gradio" not in modules_after("import app.ui")


def test_building_the_page_imports_no_torch() -> None:
    assert not {"torch", "transformers"} & modules_after("import app.ui.layout")
