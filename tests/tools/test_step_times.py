"""The maintainers' step-time curves: measured on a tiny model, written as a table and as a picture."""

from argparse import Namespace
from pathlib import Path
from time import perf_counter
from xml.etree import ElementTree

import pytest
import torch

from tests.engine.tiny import write_tiny
from tools.step_picture import COLOURS, Curve, curves, picture
from tools.step_sides import SHAPES, generate_step, make_stock, maker, our_step, stock_step
from tools.step_times import ROWS, summary, table

TIMES = {
    "foresight": {1: [3.0, 2.0], 8: [5.0]},
    "generate, sdpa": {1: [6.0]},
    "llama.cpp": {1: [1.5], 128: [40.0]},
}
FOUND = summary(Namespace(model="tiny", dtype="float32", rounds=1, clock="wall"), TIMES)


def test_every_side_takes_a_step_of_a_models_folder(tmp_path: Path) -> None:
    make = maker(str(write_tiny(tmp_path / "tiny").path), torch.float32)
    stock = make_stock(make)
    for step in (our_step(make, perf_counter), stock_step(stock, perf_counter)):
        assert all(step(rows) > 0 for rows in (1, 4, 1))
    assert isinstance(generate_step(stock, "eager", perf_counter)(1), float)
    with pytest.raises(ValueError, match="one row, got 2"):
        generate_step(stock, "eager", perf_counter)(2)


def test_named_shapes_have_the_sizes_of_their_models() -> None:
    with torch.device("meta"):
        sizes = {name: maker(name, torch.bfloat16)().num_parameters() for name in SHAPES}
    assert sizes == {"smollm2-135m": 134_515_008, "qwen3-0.6b": 596_049_920}


def test_the_table_has_the_median_and_the_least() -> None:
    lines = table(FOUND).splitlines()
    assert lines[0].count("|") == len(ROWS) + 2
    assert "| foresight | 2.5 (2.0) |" in lines[2]


def test_the_picture_draws_each_curve_inside_its_frame() -> None:
    drawn = curves([FOUND])
    assert [curve.side for curve in drawn] == ["foresight", "llama.cpp"]
    root = ElementTree.fromstring(picture("tiny", drawn))
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    dots = root.findall("{*}circle")
    assert len(dots) == 4
    assert all(0 < float(dot.attrib["cx"]) < width and 0 < float(dot.attrib["cy"]) < height for dot in dots)


def test_a_curve_without_times_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        Curve(next(iter(COLOURS)), "float32", ((1, 0.0),))
