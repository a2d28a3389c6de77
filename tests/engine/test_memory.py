"""The setting that keeps threads from having heaps of their own."""

import platform

from app.engine.memory import share_one_heap


def test_glibc_can_be_told_and_no_system_minds_being_asked() -> None:
    assert share_one_heap() == (platform.libc_ver()[0] == "glibc")
