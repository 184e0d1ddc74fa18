import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from browser import drive, needs_browser
from exported import OPTIONS, SYSTEMS, bar, probe_of, states_of, surrogate_of
from steps import STEPS, start_of

from lln.data.series import Series
from lln.export.parts import Probe
from lln.forecaster.layout import Layout
from lln.models import LensNetwork
from lln.step.frame import Flow, Frame, Functions, Polynomial, monomial_table
from lln.step.step import DenseStep
from lln.view.page import build_page

pytestmark = needs_browser


def written(folder, name, surrogate, states):
    frame = surrogate.frame
    inputs = np.zeros((len(states), frame.inputs)) if frame.inputs else None
    layout = Layout(tuple(f"x{i}" for i in range(frame.size)), 0.01, input_names=tuple("uv"[: frame.inputs]))
    file = folder / f"{name.replace(' ', '-')}.html"
    file.write_text(build_page(surrogate, layout, [Series(states, inputs)], title=name, steps=60))
    return str(file)


def asked_for(file, probe, switches=None, hash_=""):
    rolls = [
        {
            "window": window.tolist(),
            "steps": probe.steps,
            "inputs": None if probe.inputs is None else probe.inputs[k].tolist(),
            "switches": switches or {},
        }
        for k, window in enumerate(probe.window)
    ]
    return {"file": file, "hash": hash_, "rolls": rolls}


def first_start(probe):
    """One start is enough where the options are many."""
    return Probe(probe.window[:1], None if probe.inputs is None else probe.inputs[:1], probe.steps)


def held_against(cases, answers):
    """Every case within twice PyTorch's float32 error of the float64 rollout."""
    for (name, surrogate, probe), told in zip(cases, answers, strict=True):
        assert told["errors"] == [], name
        difference = probe.compare(name, surrogate, np.array(told["states"]))
        assert difference.export <= bar(difference, surrogate), difference


def test_every_system_rolls_out_as_in_python(tmp_path):
    cases, pages = [], []
    for system, steps in SYSTEMS.items():
        surrogate = surrogate_of(system)
        cases.append((system, surrogate, first_start(probe_of(system, surrogate, steps))))
        pages.append(asked_for(written(tmp_path, system, surrogate, states_of(system)[:80]), cases[-1][2]))
    double = surrogate_of("lorenz-28", **OPTIONS["float64"])  # shows an exponential that is right to 1e-12 only
    cases.append(("float64", double, first_start(probe_of("lorenz-28", double, SYSTEMS["lorenz-28"]))))
    pages.append(asked_for(written(tmp_path, "float64", double, states_of("lorenz-28")[:80]), cases[-1][2]))
    told = drive(tmp_path, "rollouts", {"pages": pages})
    assert all(one["simd"] for one in told)
    held_against(cases, told)


@pytest.mark.parametrize(("hash_", "steps"), [("", 500), ("#plain", 50)], ids=["vectors", "plain script"])
def test_every_option_rolls_out_as_in_python(tmp_path, hash_, steps):
    cases, pages = [], []
    for name, options in OPTIONS.items():
        surrogate = surrogate_of("burgers-32", **options)
        cases.append((name, surrogate, first_start(probe_of("burgers-32", surrogate, steps))))
        file = written(tmp_path, name, surrogate, states_of("burgers-32")[:80])
        pages.append(asked_for(file, cases[-1][2], hash_=hash_))
    told = drive(tmp_path, "rollouts", {"pages": pages})
    assert [one["simd"] for one in told] == [not hash_] * len(told)
    held_against(cases, told)


def test_polynomials_flows_and_bounds_roll_out_as_in_python(tmp_path):
    states = states_of("lorenz-28")
    base = surrogate_of("lorenz-28", width=8, depth=3)
    source = np.random.default_rng(0)
    table = monomial_table(range(3), 2)
    weights = 0.002 * source.normal(size=(3, len(table)))
    flow = Flow(Polynomial(table, 0.002 * source.normal(size=(3, len(table)))), 0.01 * source.normal(size=3), 2)
    low, high = np.quantile(states, 0.4, axis=0), np.quantile(states, 0.6, axis=0)  # so narrow that they are met
    cases = {
        "polynomial": replace(base.frame, polynomial=Polynomial(table, weights)),
        "flow": replace(base.frame, flow=flow),
        "all": replace(base.frame, polynomial=Polynomial(table, weights), flow=flow, low=low, high=high),
    }
    pages, rights = [], []
    for name, frame in cases.items():
        surrogate = DenseStep(frame, base.members)
        probe = first_start(probe_of("lorenz-28", base, 15))
        pages.append(asked_for(written(tmp_path, name, surrogate, states[:80]), probe))
        rights.append(surrogate.to_dtype(torch.float64).rollout(probe.window, probe.steps))
    plain = base.to_dtype(torch.float64).rollout(probe.window, probe.steps)
    for one, right in zip(drive(tmp_path, "rollouts", {"pages": pages}), rights, strict=True):
        np.testing.assert_allclose(np.array(one["states"]), right, rtol=1e-8, atol=1e-8)
        assert np.abs(right - plain).max() > 1e-3


def test_fields_with_functions_roll_out_as_in_python(tmp_path):
    steps = [STEPS[name]() for name in [name for name in STEPS if name.startswith("flow with")]]
    pages, starts = [], [start_of(step, count=2) for step in steps]
    for k, (step, start) in enumerate(zip(steps, starts, strict=True)):
        file = written(tmp_path, f"functions {k}", step, np.tile(step.frame.mean, (80, 1)))
        pages.append(asked_for(file, Probe(*start, 20)))
    told = drive(tmp_path, "rollouts", {"pages": pages})
    for step, (window, inputs), one in zip(steps, starts, told, strict=True):
        assert one["errors"] == []
        np.testing.assert_allclose(np.array(one["states"]), step.rollout(window, 20, inputs), rtol=1e-9)


def test_the_equations_of_a_pendulum_in_degrees(tmp_path):
    mean, scale, turn = np.array([20.0, 3.0]), np.array([30.0, 50.0]), np.pi / 180
    # dangle/dt = rate, drate/dt = -9 sin(angle) + 2 cos(angle), the angle in degrees; one row in 0.01 of time
    functions = Functions(np.array([[0, 1], [0, 1]]), turn * np.array([[scale[0], mean[0]], [scale[0], mean[0] + 90]]))
    weights = 0.01 * np.array([[scale[1], 0, 0], [0, -9, 2]]) / scale[:, None]
    flow = Flow(Polynomial(np.array([[-1, 1], [-1, 2], [-1, 3]]), weights), 0.01 * np.array([mean[1] / scale[0], 0]), 1,
                functions)  # fmt: skip
    none = np.zeros(0)
    frame = Frame(mean, scale, 1, np.zeros((0, 2)), none, none, np.zeros((2, 2)), np.zeros(2), np.zeros(2), flow=flow)
    file = tmp_path / "pendulum.html"
    page = build_page(DenseStep(frame), Layout(("angle", "rate"), 0.01), [Series(np.tile(mean, (80, 1)))], title="P")
    file.write_text(page)
    told = drive(tmp_path, "rollouts", {"pages": [{"file": str(file), "hash": "", "rolls": []}]})[0]
    assert told["errors"] == []
    assert told["equations"] == [
        "d\u00a0angle/dt = rate",
        "d\u00a0rate/dt = −9 sin(0.01745 angle) + 2 cos(0.01745 angle)",
    ]


def test_the_equations_of_functions_with_kinks(tmp_path):
    functions = Functions(
        np.array([[0, 2], [1, 6], [0, 5], [1, 4]]), np.array([[1.0, -1.5], [2.0, 0.0], [1.0, 3.0], [-0.5, 0.0]])
    )
    weights = 0.1 * np.array([[1.0, -2.0, 0.0, 0.0], [0.0, 0.0, 4.0, 3.0]])
    field = Polynomial(np.array([[-1, 2], [-1, 3], [-1, 4], [-1, 5]]), weights)
    none, two = np.zeros(0), np.zeros(2)
    frame = Frame(
        two, np.ones(2), 1, np.zeros((0, 2)), none, none, np.zeros((2, 2)), two, two,
        flow=Flow(field, two, 1, functions),
    )  # fmt: skip
    file = tmp_path / "kinks.html"
    file.write_text(build_page(DenseStep(frame), Layout(("x", "y"), 0.1), [Series(np.zeros((80, 2)))], title="K"))
    told = drive(tmp_path, "rollouts", {"pages": [{"file": str(file), "hash": "", "rolls": []}]})[0]
    assert told["errors"] == []
    assert told["equations"] == [
        "dx/dt = |x − 1.5| − 2 clip(2 y)",
        "dy/dt = 3 exp(−0.5 y) + 4/(x + 3)",
        "clip(a) is a, but −1 below −1 and 1 above 1.",
    ]


def test_steps_of_logarithms_roll_out_as_in_python(tmp_path):
    step = STEPS["everything, in logarithms"]()
    window, inputs = start_of(step, count=2)
    window[1, 0] = -1.0  # counts as the least that the step knows
    probe = Probe(window, inputs, 20)
    file = written(tmp_path, "logarithms", step, np.tile(step.frame.mean, (80, 1)))
    told = drive(tmp_path, "rollouts", {"pages": [asked_for(file, probe)]})[0]
    assert told["errors"] == []
    np.testing.assert_allclose(np.array(told["states"]), step.rollout(window, 20, inputs), rtol=1e-9)


def ablated(surrogate, part):
    """The surrogate with one part of its network switched off, in Python."""
    network = copy.deepcopy(surrogate.members[0])
    assert isinstance(network, LensNetwork)
    if part == "lens":
        network.lens_scale = 0.0
    elif part == "propagation":
        network.length = 0.0
    else:
        with torch.no_grad():
            network.embed_angle.weight.zero_()
            network.embed_angle.bias.zero_()
    return DenseStep(surrogate.frame, (network,))


def test_switches_do_what_the_ablation_does_in_python(tmp_path):
    surrogate, parts = surrogate_of("lorenz-28", width=9), ("lens", "angle", "propagation")
    probe = probe_of("lorenz-28", surrogate, 20)
    file = written(tmp_path, "switches", surrogate, states_of("lorenz-28")[:80])
    told = drive(tmp_path, "rollouts", {"pages": [asked_for(file, probe, {part: False}) for part in parts]})
    whole = surrogate.to_dtype(torch.float64).rollout(probe.window, probe.steps)
    for part, one in zip(parts, told, strict=True):
        right = ablated(surrogate, part).to_dtype(torch.float64).rollout(probe.window, probe.steps)
        # Both are float64; the page's exponentials are good to 1e-12, and 20 steps of Lorenz grow that a little.
        np.testing.assert_allclose(np.array(one["states"]), right, rtol=1e-9, atol=1e-9)
        assert np.abs(right - whole).max() > 1e-3
