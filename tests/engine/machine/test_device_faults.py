"""A device that is lost for good is told from errors after which the next request may work."""

import logging
from subprocess import CalledProcessError

import pytest
import torch

from app.engine.machine.device_faults import (
    is_device_fault,
    is_no_verdict,
    reason_of,
    refused_because,
    sentence_of,
)
from app.errors import AppError, EngineClosed, LoadCancelled

LOST = (
    "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be",
    "CUDA error: device-side assert triggered",
    "Triton Error [CUDA]: unspecified launch failure",
    "CUDA error: misaligned address",
    "CUDA error: unknown error",
    "Triton Error [CUDA]: unknown error",
    "CUDA driver error: unknown error",
    "CUDA error: operation not supported on global/shared address space",
    "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`",
)


@pytest.mark.parametrize("words", LOST)
def test_a_lost_device_asks_for_a_restart(words: str, caplog: pytest.LogCaptureFixture) -> None:
    error = RuntimeError(words)
    assert is_device_fault(error)
    with caplog.at_level(logging.CRITICAL):
        assert sentence_of(error).endswith("): restart Foresight.")
        assert "try again" not in sentence_of(error)


@pytest.mark.parametrize(
    "words",
    [
        "CUDA out of memory. Tried to allocate",
        "CUDA error: no kernel image is available",
        "CUDA error: invalid argument\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
        "an illegal instruction",
    ],
)
def test_other_errors_do_not(words: str) -> None:
    assert not is_device_fault(RuntimeError(words))


def test_a_trial_that_runs_out_of_memory_is_given_up_and_says_so_shortly() -> None:
    assert (
        refused_because(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"))
        == "memory ran out"
    )
    assert refused_because(ValueError("of another kind")) == "of another kind"
    with pytest.raises(RuntimeError, match="illegal memory access"):
        refused_because(RuntimeError(LOST[0]))


def test_a_library_that_cannot_start_is_not_called_a_lack_of_memory_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`")
    with caplog.at_level(logging.CRITICAL):
        sentence = sentence_of(error)
    assert "CUBLAS_STATUS_NOT_INITIALIZED" in sentence and "choose --device cpu" in sentence
    assert reason_of(error).startswith("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED")


def test_the_reason_of_a_kernels_failure_is_what_a_person_can_use() -> None:
    of_triton = RuntimeError("at 33:12:\n    a = tl.dot(b, c)\n            ^\nshapes do not match")
    assert reason_of(of_triton) == "shapes do not match"
    assert "install gcc" in reason_of(CalledProcessError(1, ["/usr/bin/gcc", "/tmp/main.c"]))
    assert reason_of(ValueError("one line\nanother")) == "one line"
    assert len(reason_of(RuntimeError("x" * 500))) == 200


@pytest.mark.parametrize("ended", [LoadCancelled("Cancelled."), EngineClosed("Foresight is closing.")])
def test_a_load_that_is_ended_is_no_failed_trial(ended: AppError) -> None:
    assert is_no_verdict(ended)
    with pytest.raises(type(ended)):
        refused_because(ended)
