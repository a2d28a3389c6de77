"""What goes wrong on this machine during a download is told as such."""

import errno

import pytest

from app.errors import ModelError
from app.models_registry.hub.errors import as_model_errors


def test_a_full_disk_says_to_free_some_space() -> None:
    expected = "disk is full, so org/name could not be downloaded: free some space"
    with pytest.raises(ModelError, match=expected), as_model_errors("org/name", "main"):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_any_other_fault_of_a_file_is_quoted_in_one_line() -> None:
    expected = r"could not be downloaded \(Consistency check failed\): try again"
    with pytest.raises(ModelError, match=expected), as_model_errors("org/name", "main"):
        raise OSError("Consistency check failed.\nPlease retry with force_download.")


def test_what_stops_a_download_comes_through_as_it_is() -> None:
    with pytest.raises(KeyboardInterrupt), as_model_errors("org/name", "main"):
        raise KeyboardInterrupt
    with pytest.raises(LookupError), as_model_errors("org/name", "main"):
        raise LookupError
