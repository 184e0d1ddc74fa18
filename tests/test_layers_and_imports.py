import inspect
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import lln


def modules_after(code):
    """Names of the modules loaded once a fresh interpreter has run `code`."""
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines())


HELP = """
from typer.testing import CliRunner
from lln.cli.app import app
assert CliRunner().invoke(app, ["--help"]).exit_code == 0
"""


@pytest.mark.parametrize("code", ["import lln", "import lln.cli", HELP, "import lln.core.provenance"])
def test_no_torch_at_the_front_door(code):
    heavy = {"torch", "numpy", "scipy", "pandas", "matplotlib", "pydantic"}
    assert heavy & modules_after(code) == set()


@pytest.mark.parametrize(
    "room", ["core.errors", "plots", "core.table", "paper.records", "core.workers", "paper.report"]
)
def test_rooms_that_never_import_torch(room):
    assert "torch" not in modules_after(f"import lln.{room}")


def test_help_answers_in_less_than_four_tenths_of_a_second():
    command = [sys.executable, "-c", "from lln.cli import main; main()", "--help"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}

    def once():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=True, env=plain)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # Processor time, which is what it takes on an idle machine: a busy one adds waiting to the wall clock.
    assert min(once() for _ in range(8)) < 0.4


def test_a_forecaster_imports_no_more_than_it_uses():
    loaded = modules_after("import lln\nlln.LensForecaster()")
    assert "torch" in loaded
    assert not loaded & {"sklearn", "scipy.stats", "pandas", "xarray", "matplotlib", "h5py", "distributed", "optuna"}


def test_at_most_twenty_public_names_and_all_of_them_load():
    assert len(lln.__all__) <= 20
    for name in lln.__all__:
        assert getattr(lln, name) is not None
    assert {"LensNetwork", "lens_transport", "InputError"} <= set(lln.__all__)
    assert set(lln.__all__) <= set(dir(lln))


@pytest.mark.parametrize("first", ["import lln.tuning.search", "import lln.cli.fit", "lln.tuning", "lln.search"])
def test_search_is_the_function_whatever_was_imported_before(first):
    """A package of the same name would take the place of the function once it is imported."""
    modules_after(f"import lln\n{first}\nassert type(lln.search).__name__ == 'function'")
    packages = {init.parent.name for init in (Path(lln.__file__).parent).glob("*/__init__.py")}
    assert packages & set(lln.__all__) == set()


def test_every_package_of_the_reference_is_there_after_import_lln():
    root = Path(__file__).parents[1]
    rooms = sorted(
        init.parent.name for init in (root / "src" / "lln").glob("*/__init__.py") if init.parent.name != "cli"
    )
    named = {
        room
        for page in (root / "docs" / "api").glob("*.md")
        for room in re.findall(r"auto\w+:: lln\.(\w+)\.", page.read_text())
    }
    assert named
    assert named <= set(rooms)
    assert {"view", "paper", "tuning", "export"} <= set(rooms)
    assert set(rooms) <= set(dir(lln))
    # In a fresh interpreter each: what another one imported would be found without asking.
    for room in rooms:
        assert f"lln.{room}" in modules_after(f"import lln\nlln.{room}.__name__")


def test_unknown_public_name():
    with pytest.raises(AttributeError, match="module 'lln' has no attribute 'LensNet'"):
        lln.LensNet  # noqa: B018


def test_the_promised_signatures():
    network = inspect.signature(lln.LensNetwork)
    assert (
        str(network)
        .replace("'", "")
        .startswith(
            "(n_in: int, n_out: int, *, width: int = 128, depth: int = 40, basis: int = 12, "
            "optical_length: float = 1.0, lens_scale: float = 1.0, control_range: tuple[float, float] = (-3.0, 3.0), "
            "sigma: float | None = None, initial_angle: str = learned, propagation: float | None = None, "
            "horizon: float | None = None, generator: torch.Generator | None = None)"
        )
    )
    for transport in (lln.lens_transport, lln.ops.reference.lens_transport):
        parameters = inspect.signature(transport).parameters
        names = ["y", "theta", "coefficients", "centers", "sigma", "length", "scale", "backend", "backward"]
        assert list(parameters) == names
        assert parameters["scale"].default == 1.0
        assert parameters["backend"].kind is parameters["backward"].kind is inspect.Parameter.KEYWORD_ONLY
    assert inspect.signature(lln.lens_transport).parameters["backend"].default == "auto"
    assert inspect.signature(lln.lens_transport).parameters["backward"].default == "recompute"
