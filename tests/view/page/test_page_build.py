import base64
import hashlib
import json
import re

import numpy as np
import pytest
import torch
from exported import states_of, surrogate_of

from lln.core.errors import InputError
from lln.data.series import Dataset, Series
from lln.forecaster.layout import Layout
from lln.models import LensNetwork
from lln.step.frame import Frame, Polynomial
from lln.step.step import DenseStep
from lln.systems import preset
from lln.view.page import build_page
from lln.view.page.equations import polynomial_field
from lln.view.page.payload import COARSE, EXACT, FINE, ROWS, packed, quantised, runs_of

LORENZ = Layout(("x", "y", "z"), 0.01)


def page(surrogate=None, layout=LORENZ, runs=None, **words):
    surrogate = surrogate or surrogate_of("lorenz-28")
    runs = [Series(states_of("lorenz-28")[:50])] if runs is None else runs
    return build_page(surrogate, layout, runs, **{"title": "Lorenz", **words})


def payload_of(text):
    return json.loads(re.search('<script type="application/json" id="payload">(.*?)</script>', text, re.DOTALL)[1])


def unpacked(entry):
    return np.frombuffer(base64.b64decode(entry["data"]), dtype=entry["dtype"]).reshape(entry["shape"])


def test_the_largest_model_of_the_paper_stays_under_three_megabytes():
    n = 96  # SpringChain-48: positions and velocities
    source = np.random.default_rng(0)
    network = LensNetwork(n, n, width=512, depth=40, basis=12, generator=torch.Generator().manual_seed(0))
    blank = np.zeros(0)
    frame = Frame(
        source.normal(size=n), source.uniform(1, 2, n), 1, np.zeros((0, n)), blank, blank,
        source.normal(size=(n, n)), source.normal(size=n), np.ones(n),
    )  # fmt: skip
    layout = Layout(tuple(f"q{i}" for i in range(n)), 0.02)
    data = Dataset((Series(source.normal(size=(4000, n))),), 0.02)
    text = build_page(DenseStep(frame, (network,)), layout, runs_of(data, None, 1)[0], title="SpringChain-48")
    assert len(text.encode()) < 3_000_000


def test_weights_travel_without_loss():
    surrogate = surrogate_of("lorenz-28", members=3)
    linear, network = payload_of(page(surrogate))["parts"]
    merged = surrogate.merged().double()
    np.testing.assert_array_equal(unpacked(network["arrays"]["coefficients"]), merged.coefficients.detach().numpy())
    assert network["arrays"]["coefficients"]["dtype"] == "float32"
    # A third of a float32 is none, so the merged readout needs float64.
    assert network["arrays"]["readout_weight"]["dtype"] == "float64"
    np.testing.assert_array_equal(unpacked(linear["arrays"]["matrix"]), surrogate.frame.matrix)


@pytest.mark.parametrize(
    ("values", "dtype"), [([0.5, np.nan], "float32"), ([0.1], "float64"), ([1e300], "float64"), ([], "float32")]
)
def test_float32_is_taken_only_where_it_is_exact(values, dtype):
    entry = packed(np.array(values))
    assert entry["dtype"] == dtype
    np.testing.assert_array_equal(unpacked(entry), values)


def test_the_policy_names_the_script_and_style_by_their_hash_and_lets_nothing_else_in():
    text = page()
    policy = re.search('http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    script = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    style = re.findall("<style>(.*?)</style>", text, re.DOTALL)
    assert len(script) == len(style) == 1
    for kind, content in (("script-src", script[0]), ("style-src", style[0])):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe-inline" not in policy
    assert "http" not in policy


def test_names_cannot_leave_their_place():
    bad = "</script><!-- & <b> @script@ \u2028"
    text = page(layout=Layout((bad, "y", "z"), 0.01), title=bad)
    inside = re.search('id="payload">(.*?)</script>', text, re.DOTALL)[1]
    assert not set("<>&") & set(inside)
    assert payload_of(text)["names"][0] == bad
    assert payload_of(text)["title"] == bad


def test_gaps_split_a_trajectory_and_long_data_is_cut_with_a_note():
    rows = ROWS // 2 + 1000
    states = np.random.default_rng(0).normal(size=(rows, 2))
    states[100] = np.nan
    runs, kind, notes = runs_of(Dataset((Series(states, name="run"),), 0.5, source="file"), None, 1)
    assert kind == "new to the model"
    assert [len(run.series) for run in runs] == [ROWS // 2]
    assert runs[0].first_row == 101
    assert runs[0].series.start == 101 * 0.5
    (note,) = notes
    assert note.startswith(f"{ROWS // 2:,} of {rows - 1:,} rows are on this page")
    short, _, notes = runs_of(Dataset((Series(states[:300], name="run"),), 0.5, source="file"), None, 1)
    assert [len(run.series) for run in short] == [199, 100]
    assert len({run.series.name for run in short}) == 2
    assert notes == []


def test_trajectories_are_told_apart_without_the_name_of_the_file():
    states = np.random.default_rng(0).normal(size=(2, 20, 2))
    series = tuple(Series(one, name=f"file.csv, run {k}") for k, one in enumerate(states))
    runs, _, _ = runs_of(Dataset(series, source="file.csv"), None, 1)
    assert [run.series.name for run in runs] == ["run 0", "run 1"]


def test_two_dimensional_truth_of_hundreds_of_frames_fits():
    data = Dataset((Series(np.zeros((400, 64 * 64))),), space=(64, 64), channels=("u",))
    runs, _, notes = runs_of(data, None, 1)
    assert len(runs[0].series) == 400
    assert notes == []
    many = Dataset((Series(np.zeros((2000, 64 * 64))),), space=(64, 64), channels=("u",))
    runs, _, (note,) = runs_of(many, None, 1)
    assert len(runs[0].series) == COARSE // 64**2
    assert note.startswith("1,464 of 2,000 rows")


@pytest.mark.parametrize(("numbers", "dtype", "levels"), [(EXACT + 1, "uint16", 65535), (FINE + 1, "uint8", 255)])
def test_large_data_is_rounded_to_so_many_levels_of_its_range(numbers, dtype, levels):
    values = np.random.default_rng(0).normal(size=(50, 6)) * np.repeat([1.0, 100.0], 3)
    entry = quantised(values, 2, numbers)
    assert entry["dtype"] == dtype
    found = np.array(entry["low"]).repeat(3) + np.array(entry["step"]).repeat(3) * unpacked(entry)
    spans = np.ptp(values.reshape(50, 2, 3), axis=(0, 2)).repeat(3)
    assert (np.abs(found - values) <= 0.5001 * spans / levels).all()
    assert quantised(values, 2, EXACT)["dtype"] == "float64"


def test_what_is_rounded_is_said():
    wide = Layout(tuple(f"x{i}" for i in range(3)), 0.01)
    runs = [Series(np.random.default_rng(0).normal(size=(EXACT // 3 + 1, 3)))]
    assert "rounded to 16 bits" in payload_of(page(layout=wide, runs=runs))["notes"][0]
    assert payload_of(page())["notes"] == []


@pytest.mark.parametrize("name", ["lorenz-28", "springchain-32", "burgers-48", "advecdiff-32", "reactiondiff-48"])
def test_a_preset_is_its_polynomial(name):
    system = preset(name)
    table, weights, offset = polynomial_field(system)
    states = np.random.default_rng(1).normal(size=(20, system.size))
    slopes = Polynomial(table, weights)(states) + offset
    np.testing.assert_allclose(slopes, system.rhs(states), rtol=1e-9, atol=1e-9)


def test_spectral_fields_have_no_polynomial():
    assert polynomial_field(preset("ks-64")) is None


def test_data_without_a_stretch_long_enough_is_refused():
    states = np.full((4, 2), np.nan)
    states[::2] = 1.0
    with pytest.raises(InputError, match=r"^file: no stretch of 3 rows without a gap"):
        runs_of(Dataset((Series(states),), source="file"), None, 2)


def test_a_start_that_is_too_short_is_refused():
    with pytest.raises(InputError, match="a start needs 3 rows of 3 coordinates, got 1 of 3"):
        page(surrogate_of("lorenz-28", history=3), runs=[Series(np.zeros((1, 3)))])
    with pytest.raises(InputError, match="at least one trajectory"):
        page(runs=[])
