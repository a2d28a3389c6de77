"""Numbers about models and downloads, for people."""

from dataclasses import replace

import pytest

from app.values.model import Download, FileProgress, Memory, best_gguf, gigabytes, parameters_label


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (512, "512"), (260_000, "260K"), (7_300_000, "7.3M"), (7_340_000, "7.3M"), (134_515_008, "135M"),
        (999_885_952, "1B"), (1_720_574_976, "1.7B"), (7_000_000_000, "7B"), (8_030_261_248, "8B"),
    ],
)  # fmt: skip
def test_parameters_are_counted_as_models_are_named(count: int, words: str) -> None:
    assert parameters_label(count) == words


@pytest.mark.parametrize(
    ("count", "words"), [(1_250_000_000, "1.25 GB"), (310e6, "310 MB"), (12_400, "12 kB"), (5, "5 bytes")]
)
def test_bytes_are_told_in_words(count: float, words: str) -> None:
    assert gigabytes(count) == words


def test_numbers_of_a_download_are_checked_and_added_up() -> None:
    files = FileProgress("a", 10, 4), FileProgress("b", 30, 16)
    download = Download("org/x", "running", files, speed=5.0)
    assert (download.size, download.done, download.seconds_left) == (40, 20, 4.0)
    assert replace(download, speed=0.0).seconds_left is None
    for wrong in (
        lambda: FileProgress("a", 1, 2),
        lambda: Memory("cpu", 2, 1),
        lambda: Download("x", "gone"),
    ):  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="it is"):
            wrong()


def test_the_largest_gguf_file_that_fits_disk_and_memory_is_recommended() -> None:
    sizes = {"m-Q2_K.gguf": 2, "m-Q4_K_M.gguf": 4, "m-Q8_0.gguf": 8, "m-BF16.gguf": 16}
    files = [FileProgress(name, size * 10**9) for name, size in sizes.items()]
    for disk, memory, expected in (
        (100, 100, "m-Q8_0.gguf"),
        (100, 6, "m-Q4_K_M.gguf"),
        (3, 6, "m-Q2_K.gguf"),
        (100, 1, "m-Q2_K.gguf"),
        (1, 100, ""),
    ):
        assert best_gguf(files, disk * 10**9, memory * 10**9) == expected
    assert best_gguf(files[3:], 10**11, 10**11) == "m-BF16.gguf"
