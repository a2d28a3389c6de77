"""What the command line and torchrun say about ranks, in values and in sentences."""

import pytest

from app.engine.machine.device_options import (
    ALONE,
    RankPlan,
    TorchrunRank,
    plan_of,
    read_devices,
    torchrun_rank,
)
from app.errors import BadOption

ENVIRONMENT = {
    "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0",
    "RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500",
}  # fmt: skip


def test_devices_are_cards_by_number_or_the_cpu() -> None:
    assert read_devices("0, 1") == ("cuda:0", "cuda:1")
    assert read_devices("cpu,CPU") == ("cpu", "cpu")
    assert read_devices("cuda:2") == ("cuda:2",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0,0", "a GPU can be named once only; it is “cuda:0”"),
        ("00,0", "a GPU can be named once only"),
        ("cpu,0", "devices must be all GPUs or all cpu"),
        ("gpu", "a device must be cpu, or a GPU's number; it is “gpu”"),
        ("0,", "a device must be cpu, or a GPU's number; it is “”"),
        ("-1", "it is “-1”"),
        ("٣", "a device must be"),
    ],
)
def test_other_devices_are_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RankPlan(read_devices(text))


def test_one_of_device_and_devices_is_chosen() -> None:
    assert plan_of(None, "cpu", None) == ALONE
    assert plan_of("0,1", "auto", None) == RankPlan(("cuda:0", "cuda:1"))
    with pytest.raises(BadOption, match=r"Choose one of --device and --devices\."):
        plan_of("0,1", "cpu", None)


def test_torchrun_is_recognised_by_its_environment() -> None:
    assert torchrun_rank({}) is None
    assert torchrun_rank({**ENVIRONMENT, "WORLD_SIZE": "1"}) is None
    assert (
        torchrun_rank({name: value for name, value in ENVIRONMENT.items() if "ELASTIC" not in name}) is None
    )
    assert torchrun_rank(ENVIRONMENT) == TorchrunRank(1, 2, "127.0.0.1", 29500)
    first = {**ENVIRONMENT, "RANK": "0", "TORCHELASTIC_USE_AGENT_STORE": "False"}
    assert torchrun_rank(first) == TorchrunRank(0, 2, "127.0.0.1", 29500, hosts_store=True)


def test_ranks_on_other_machines_are_refused() -> None:
    with pytest.raises(BadOption, match="All ranks must run on one machine"):
        torchrun_rank({**ENVIRONMENT, "WORLD_SIZE": "4"})


def test_torchruns_ranks_and_the_devices_are_as_many() -> None:
    torchrun = TorchrunRank(0, 2, "127.0.0.1", 29500)
    assert plan_of("cpu,cpu", "auto", torchrun).devices == ("cpu", "cpu")
    with pytest.raises(ValueError, match="torchrun started 2 ranks, so name 2 devices"):
        plan_of("cpu,cpu,cpu", "auto", torchrun)
