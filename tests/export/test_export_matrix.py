"""Every option of the forecaster on every preset, as ONNX and C: the whole of what the quick tests take a part of."""

import pytest
from exported import OPTIONS, SYSTEMS, TAMED, bar, probe_of, surrogate_of
from exported_fields import field_bar
from exported_fits import cases, fitted, fitted_probe

from lln.export.c.export import compile_c, compiler, export_c, replay
from lln.export.onnx import export_onnx, run
from lln.step.field import FieldStep

pytestmark = pytest.mark.slow


def held_to_the_bar(surrogate, probe, folder):
    limit = field_bar if isinstance(surrogate, FieldStep) else bar
    export_onnx(surrogate, folder / "model.onnx", rollout=True)
    found = [probe.compare("ONNX", surrogate, run(folder / "model.onnx", probe, rollout=True))]
    if compiler() is not None:
        export_c(surrogate, folder, check=False)
        program = compile_c(folder, "model", folder / "program", ("-O1",))
        found.append(probe.compare("C", surrogate, replay(program, probe, surrogate)))
    for difference in found:
        assert difference.export <= limit(difference, surrogate), difference


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("system", [system for system in SYSTEMS if system != "burgers-32"])
def test_every_option_on_every_preset(system, option, tmp_path):
    surrogate = surrogate_of(system, **{**OPTIONS[option], **TAMED.get((system, option), {})})
    held_to_the_bar(surrogate, probe_of(system, surrogate, SYSTEMS[system]), tmp_path)


@pytest.mark.parametrize(("system", "option"), cases())
def test_forecasters_fitted_with_every_option(system, option, tmp_path):
    forecaster = fitted(system, option)
    held_to_the_bar(forecaster.surrogate_, fitted_probe(system, forecaster, option == "constant inputs"), tmp_path)
