"""The log of the app: what becomes of it where its disk fails."""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.desktop.log_file import log_path, write_log


@pytest.fixture
def handler(tmp_path: Path) -> Iterator[logging.Handler]:
    made = write_log(log_path(tmp_path))
    assert made is not None
    yield made
    logging.getLogger().removeHandler(made)
    made.close()


def test_a_log_whose_folder_is_gone_says_nothing_on_the_terminal(
    handler: logging.Handler, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(tmp_path / "logs")
    handler.handle(logging.LogRecord("app", logging.WARNING, __file__, 1, "documents wait", None, None))
    assert capsys.readouterr() == ("", "")
    (tmp_path / "logs").mkdir()
    handler.handle(logging.LogRecord("app", logging.WARNING, __file__, 1, "documents go on", None, None))
    assert "documents go on" in log_path(tmp_path).read_text(encoding="utf-8")
