"""Every option of the forecaster on every preset in Chromium: the whole of what the quicker tests take a part of."""

import numpy as np
import pytest
from browser import drive, needs_browser
from exported import OPTIONS, SYSTEMS, TAMED, bar, probe_of, states_of, surrogate_of
from exported_fields import FIELDS, field_bar, field_of, field_probe
from exported_fits import cases, fitted, fitted_probe
from test_page_rollouts import asked_for, first_start

from lln.data.series import Dataset, Series
from lln.forecaster.layout import Layout
from lln.step.field import FieldStep
from lln.view.page import build_page, forecaster_page

pytestmark = [needs_browser, pytest.mark.slow]


def drawn_page(name, surrogate, states):
    """A page around a surrogate that was made and not fitted."""
    frame = surrogate.frame
    space = frame.space if isinstance(surrogate, FieldStep) else ()
    layout = Layout(
        tuple(f"x{i}" for i in range(frame.size)), 0.01, space,
        tuple("uv"[: frame.size // int(np.prod(space))]) if space else (),
        {f"axis{k}": np.arange(float(size)) for k, size in enumerate(space)},
        tuple("uv"[: frame.inputs]),
    )  # fmt: skip
    inputs = np.zeros((len(states), frame.inputs)) if frame.inputs else None
    return build_page(surrogate, layout, [Series(states, inputs)], title=name, steps=20)


def held_to_the_bar(folder, made):
    """Write every page, roll all of them out in one browser, and compare."""
    pages = []
    for k, (_, text, _, probe) in enumerate(made):
        file = folder / f"{k}.html"
        file.write_text(text)
        pages.append(asked_for(str(file), probe))
    for (name, _, surrogate, probe), told in zip(made, drive(folder, "rollouts", {"pages": pages}), strict=True):
        assert told["errors"] == [], name
        difference = probe.compare(name, surrogate, np.array(told["states"]))
        limit = field_bar if isinstance(surrogate, FieldStep) else bar
        assert difference.export <= limit(difference, surrogate), difference


@pytest.mark.parametrize("system", [system for system in SYSTEMS if system != "burgers-32"])
def test_every_option_on_every_preset(system, tmp_path):
    made = []
    for name, options in OPTIONS.items():
        surrogate = surrogate_of(system, **{**options, **TAMED.get((system, name), {})})
        text = drawn_page(name, surrogate, states_of(system)[:80])
        made.append((name, text, surrogate, first_start(probe_of(system, surrogate, SYSTEMS[system]))))
    held_to_the_bar(tmp_path, made)


@pytest.mark.parametrize("system", SYSTEMS)
def test_forecasters_fitted_with_every_option(system, tmp_path):
    made = []
    for name in [option for preset, option in cases() if preset == system]:
        forecaster = fitted(system, name)
        probe = first_start(fitted_probe(system, forecaster, name == "constant inputs"))
        rows = len(probe.window[0]) + 60
        known = None if probe.inputs is None else np.repeat(probe.inputs[0, :1], rows, axis=0)
        layout = forecaster.layout_
        series = (Series(states_of(system)[2500 : 2500 + rows], known),)
        data = Dataset(series, layout.dt, layout.names, space=layout.space, channels=layout.channels)
        made.append((name, forecaster_page(forecaster, data, steps=20), forecaster.surrogate_, probe))
    held_to_the_bar(tmp_path, made)


def test_every_kind_of_field(tmp_path):
    made = []
    for name, options in FIELDS.items():
        surrogate = field_of(**options)
        probe = first_start(field_probe(surrogate))
        made.append((name, drawn_page(name, surrogate, np.concatenate([probe.window[0]] * 2)), surrogate, probe))
    held_to_the_bar(tmp_path, made)
