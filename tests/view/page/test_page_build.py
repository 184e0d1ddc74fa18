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
from lln.step.frame import Frame
from lln.step.surrogate import Surrogate
from lln.view.page import build_page
from lln.view.page.build import MOST_NUMBERS, stretches
from lln.view.page.payload import packed

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
    text = build_page(Surrogate(frame, (network,)), layout, stretches(data, 1), title="SpringChain-48")
    assert len(text.encode()) < 3_000_000


def test_weights_travel_without_loss():
    surrogate = surrogate_of("lorenz-28", members=3)
    network = payload_of(page(surrogate))["network"]
    merged = surrogate.merged().double()
    np.testing.assert_array_equal(unpacked(network["arrays"]["coefficients"]), merged.coefficients.detach().numpy())
    assert network["arrays"]["coefficients"]["dtype"] == "float32"
    # A third of a float32 is none, so the merged readout needs float64.
    assert network["arrays"]["readout_weight"]["dtype"] == "float64"
    np.testing.assert_array_equal(
        unpacked(payload_of(page(surrogate))["frame"]["arrays"]["matrix"]), surrogate.frame.matrix
    )


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


def test_gaps_split_a_trajectory_and_long_data_is_cut():
    states = np.random.default_rng(0).normal(size=(MOST_NUMBERS, 2))
    states[100] = np.nan
    runs = stretches(Dataset((Series(states, name="run"),), 0.5, source="file"), 1)
    assert [len(one) for one in runs] == [100, MOST_NUMBERS // 2 - 100]
    assert runs[1].start == 101 * 0.5
    assert len({one.name for one in runs}) == 2


def test_data_without_a_stretch_long_enough_is_refused():
    states = np.full((4, 2), np.nan)
    states[::2] = 1.0
    with pytest.raises(InputError, match=r"^file: no stretch of 3 rows without a gap"):
        stretches(Dataset((Series(states),), source="file"), 2)


def test_a_start_that_is_too_short_is_refused():
    with pytest.raises(InputError, match="a start needs 3 rows of 3 coordinates, got 1 of 3"):
        page(surrogate_of("lorenz-28", history=3), runs=[Series(np.zeros((1, 3)))])
    with pytest.raises(InputError, match="at least one trajectory"):
        page(runs=[])
