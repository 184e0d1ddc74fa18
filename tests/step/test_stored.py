import numpy as np
import pytest
import torch
from steps import STEPS, start_of

from lln.core.errors import InputError
from lln.export.c.export import export_c
from lln.export.onnx import export_onnx
from lln.export.torch import export_torch
from lln.models import StateNetwork
from lln.models.base import seeded_linear
from lln.models.factory import NETWORKS
from lln.step.step import DenseStep, step_of


def stored(name="everything"):
    step = STEPS[name]()
    return step.record(), {key: np.array(value) for key, value in step.arrays().items()}


def refuse(record, arrays, message):
    with pytest.raises((ValueError, KeyError), match=message):
        step_of(record, arrays)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("polynomial_table", lambda a: a[:, :1], r"polynomial_table should be int64 of shape"),
        ("polynomial_table", lambda a: a.astype(np.float64), r"polynomial_table should be int64 of shape"),
        ("polynomial_table", lambda a: np.where(a == -1, -2, a), "names a monomial or a feature that does not exist"),
        ("polynomial_table", lambda a: a[::-1].copy(), "names a monomial or a feature that does not exist"),
        ("polynomial_table", lambda a: a + np.array([0, 100]), "names a monomial or a feature that does not exist"),
        ("polynomial_weights", lambda a: a[:, 1:], r"polynomial_weights should be float64 of shape"),
        ("polynomial_weights", lambda a: a * np.nan, "numbers that are not finite"),
        ("flow_table", lambda a: a + np.array([0, 4]), "flow_table names a monomial or a feature that does not exist"),
        ("flow_offset", lambda a: a[:1], "flow_offset should be float64 of shape"),
        ("flow_substeps", lambda a: a * 0, "flow_substeps should be from 1 to 1000, got 0"),
        ("flow_substeps", lambda a: a * 10**9, "flow_substeps should be from 1 to 1000"),
        ("low", lambda a: a + 100.0, "frame.low is above frame.high"),
        ("high", lambda a: a * np.inf, "frame.high holds numbers that are not finite"),
        ("matrix", lambda a: a.astype(np.float32), "matrix should be float64"),
    ],
)
def test_arrays_that_do_not_fit_are_named(name, values, message):
    record, arrays = stored()
    arrays[f"frame.{name}"] = values(arrays[f"frame.{name}"])
    refuse(record, arrays, message)


def set_to(row, column, value):
    """The array with one entry changed."""

    def changed(values):
        values[row, column] = value
        return values

    return changed


UNKNOWN = "frame.flow_function_table names a variable or a function that does not exist"


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("table", set_to(2, 0, 5), UNKNOWN),  # three states and two inputs: a function of a function
        ("table", set_to(2, 0, -1), UNKNOWN),
        ("table", set_to(2, 1, 7), UNKNOWN),
        ("table", set_to(2, 1, -1), UNKNOWN),
        ("table", lambda a: a[:0], UNKNOWN),
        ("table", lambda a: a[:, :1], "frame.flow_function_table should be int64 of shape"),
        ("table", lambda a: a.astype(np.float64), "frame.flow_function_table should be int64 of shape"),
        ("table", lambda a: a[1:], "frame.flow_function_arguments should be float64 of shape"),
        ("arguments", lambda a: a[1:], "frame.flow_function_arguments should be float64 of shape"),
        ("arguments", lambda a: a[:, :1], "frame.flow_function_arguments should be float64 of shape"),
        ("arguments", lambda a: a.astype(np.float32), "frame.flow_function_arguments should be float64 of shape"),
        ("arguments", set_to(3, 1, np.nan), "frame.flow_function_arguments holds numbers that are not finite"),
        ("arguments", set_to(3, 0, np.inf), "frame.flow_function_arguments holds numbers that are not finite"),
    ],
)
def test_functions_that_do_not_fit_are_named(name, values, message):
    record, arrays = stored("flow with every function, history and inputs")
    key = f"frame.flow_function_{name}"
    arrays[key] = values(arrays[key])
    refuse(record, arrays, message)
    del arrays[key]
    refuse(record, arrays, key)


def test_a_field_names_only_functions_that_it_has():
    record, arrays = stored("flow with every function, history and inputs")
    fewer = {name: values[:-1] if "flow_function" in name else values for name, values in arrays.items()}
    refuse(record, fewer, "frame.flow_table names a monomial or a feature that does not exist")
    none = {name: values for name, values in arrays.items() if "flow_function" not in name}
    refuse(record, none, "frame.flow_table names a monomial or a feature that does not exist")
    record, arrays = stored("linear")
    refuse(record, {**arrays, "frame.flow_function_table": np.zeros((1, 2), dtype=np.int64)}, "is not an array of this")


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("log_scale", lambda a: a * 0, "frame.log_scale and frame.log_floor should be above zero"),
        ("log_floor", lambda a: -a, "frame.log_scale and frame.log_floor should be above zero"),
        ("log_mean", lambda a: a[1:], "frame.log_mean should be float64 of shape"),
    ],
)
def test_units_of_logarithms_that_do_not_fit_are_named(name, values, message):
    record, arrays = stored("logarithms")
    arrays[f"frame.{name}"] = values(arrays[f"frame.{name}"])
    refuse(record, arrays, message)
    del arrays[f"frame.{name}"]
    refuse(record, arrays, f"frame.{name}")


@pytest.mark.parametrize("name", ["low", "high", "flow_offset", "flow_substeps", "polynomial_weights", "gain"])
def test_half_a_part_is_refused(name):
    record, arrays = stored()
    del arrays[f"frame.{name}"]
    refuse(record, arrays, f"frame.{name}")


@pytest.mark.parametrize("name", ["mean", "scale", "floor"])
def test_one_of_the_units_of_logarithms_alone_is_refused(name):
    record, arrays = stored("logarithms")
    alone = {key: values for key, values in arrays.items() if "log_" not in key or key == f"frame.log_{name}"}
    refuse(record, alone, f"frame.log_{'scale' if name == 'mean' else 'mean'}")


def test_an_array_of_another_kind_of_step_is_refused():
    record, arrays = stored("linear")
    refuse(record, {**arrays, "frame.static": np.ones((2, 1))}, "frame.static is not an array of this kind of step")
    record, arrays = stored("field")
    refuse(record, {**arrays, "frame.flow_offset": np.ones(1)}, "frame.flow_offset is not an array of this kind")
    refuse(record, {**arrays, "frame.low": np.ones(1)}, "frame.high")
    refuse(record, {**arrays, "frame.low": np.ones(1), "frame.high": np.zeros(1)}, "frame.low is above frame.high")
    refuse({**record, "surrogate": "other"}, arrays, "unknown surrogate 'other'")


def test_members_have_one_type_each():
    record, arrays = stored("float64 lens")
    arrays["member.0.readout.bias"] = arrays["member.0.readout.bias"].astype(np.float32)
    refuse(record, arrays, "tensors of one floating type, got 2 types")


class Ridgelets(StateNetwork):
    """A network that lln does not know."""

    def __init__(self, n_in, n_out, *, width=4, generator=None):
        super().__init__()
        self.n_in, self.n_out, self.width, self.depth = n_in, n_out, width, 1
        self.inner, self.readout = seeded_linear(n_in, width, generator), seeded_linear(width, n_out, generator)

    def states(self, x):
        return [torch.sin(self.inner(x))]

    def forward(self, x):
        return self.readout(self.states(x)[0])

    def config(self):
        return {"n_in": self.n_in, "n_out": self.n_out, "width": self.width}


@pytest.fixture
def foreign():
    NETWORKS.register("ridgelets", Ridgelets)
    step = STEPS["polynomial, history and inputs"]()
    return step.replace(members=[Ridgelets(step.frame.features, 3), Ridgelets(step.frame.features, 3)])


def test_a_network_of_another_package_rolls_out_and_is_stored(foreign):
    window, inputs = start_of(foreign)
    states = foreign.rollout(window, 20, inputs)
    assert np.abs(states - foreign.replace(members=()).rollout(window, 20, inputs)).max() > 1e-3
    again = step_of(foreign.record(), foreign.arrays())
    assert isinstance(again, DenseStep)
    np.testing.assert_array_equal(again.rollout(window, 20, inputs), states)


@pytest.mark.parametrize("export", [export_onnx, export_torch, export_c])
def test_a_network_of_another_package_has_no_export(foreign, export, tmp_path):
    with pytest.raises(
        InputError, match=r"^Ridgelets has no export; lens networks and lln's own comparators have one$"
    ):
        export(foreign, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
