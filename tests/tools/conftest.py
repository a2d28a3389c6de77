"""Children of the tests of tool servers."""

import os

import pytest

from tests.support.forked_children import ForkedChild


@pytest.fixture
def forked_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the children instead of starting them, because each would import the `mcp` package."""
    if hasattr(os, "fork"):
        monkeypatch.setattr("app.tools.mcp_servers.ChildProcess", ForkedChild)
