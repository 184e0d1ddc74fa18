import shutil
import subprocess

import numpy as np
import pytest
import torch
from exported import OPTIONS, SYSTEMS, bar, probe_of, surrogate_of
from exported_fields import FIELDS, field_bar, field_of, field_probe
from steps import STEPS

from lln import InputError
from lln.export.c.export import FLAGS, compile_c, compiler, export_c, replay

if compiler() is None:
    pytest.skip("no C compiler is installed", allow_module_level=True)

QUICK = ("-O1",)
SANITIZED = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
# Every piece of C that can be written: groups of control points, plain Gaussians, no lens, no network, dense layers.
PIECES = ["inputs and history", "many control points", "hair-thin lenses", "zero angle", "one layer", "no network"]
PIECES += ["residual-batchnorm"]
EVERY_FUNCTION = "flow with every function, history and inputs"


@pytest.fixture(autouse=True)
def _no_second_compilation(monkeypatch):
    monkeypatch.setattr("lln.export.c.export.FAST", QUICK)


def held_to_the_bar(system, options, folder, precision=None, flags=QUICK):
    surrogate = surrogate_of(system, **options)
    probe = probe_of(system, surrogate, SYSTEMS[system])
    export_c(surrogate, folder, precision, check=False)
    program = compile_c(folder, "model", folder / "program", flags)
    difference = probe.compare("C", surrogate, replay(program, probe, surrogate))
    assert difference.export <= bar(difference, surrogate)
    return difference


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_rollout_is_as_near_to_float64_as_pytorch(system, tmp_path):
    held_to_the_bar(system, {}, tmp_path, flags=("-O3", "-march=native"))


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_of_the_forecaster(option, tmp_path):
    held_to_the_bar("burgers-32", OPTIONS[option], tmp_path)


@pytest.mark.parametrize("option", ["history", "inputs", "no linear part", "paper", "three members", "zero angle"])
def test_options_on_a_chaotic_system(option, tmp_path):
    held_to_the_bar("lorenz-28", OPTIONS[option], tmp_path)


@pytest.mark.parametrize("option", PIECES)
def test_double_is_nearer_still(option, tmp_path):
    difference = held_to_the_bar("burgers-32", OPTIONS[option], tmp_path, "double")
    assert difference.export <= 1e-11


@pytest.mark.parametrize("option", PIECES)
@pytest.mark.parametrize("precision", ["float", "double"])
def test_sanitizers_find_nothing(option, precision, tmp_path):
    surrogate = surrogate_of(**OPTIONS[option])
    export_c(surrogate, tmp_path, precision, check=False)
    program = compile_c(tmp_path, "model", tmp_path / "program", SANITIZED)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "from the float64 rollout over 50 steps" in done.stdout


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.parametrize("what", ["inputs and history", EVERY_FUNCTION])
def test_valgrind_finds_nothing(what, tmp_path):
    surrogate = STEPS[what]() if what in STEPS else surrogate_of(**OPTIONS[what])
    export_c(surrogate, tmp_path, check=False)
    program = compile_c(tmp_path, "model", tmp_path / "program", ("-g", "-O1"))
    words = ["valgrind", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=all", "-q", program]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_diverged_rollout_stays_within_defined_behaviour(tmp_path):
    surrogate = surrogate_of()
    probe = probe_of("burgers-32", surrogate, 5)
    probe.window[0] = np.nan
    probe.window[1] = 1e300
    export_c(surrogate, tmp_path, check=False)
    program = compile_c(tmp_path, "model", tmp_path / "program", (*SANITIZED, "-fsanitize=float-cast-overflow"))
    states = replay(program, probe, surrogate)
    assert not np.isfinite(states[0]).any()
    assert np.isfinite(states[2:]).all()


def test_the_self_test_fails_when_the_model_is_wrong(tmp_path):
    export_c(surrogate_of(linear=False), tmp_path, check=False)
    text = (tmp_path / "model.c").read_text()
    assert "y[j] += 0.16666666666666666 * theta[j]" in text
    wrong = text.replace("y[j] += 0.16666666666666666", "y[j] += 0.1666")
    (tmp_path / "model.c").write_text(wrong)
    program = compile_c(tmp_path, "model", tmp_path / "program", QUICK)
    assert subprocess.run([program], capture_output=True, check=False).returncode == 1


def test_files_and_what_is_told(tmp_path):
    told = export_c(surrogate_of(), tmp_path / "made", name="burgers", names=["u */ #error", "v"])
    assert [path.name for path in told.files] == ["burgers.c", "burgers.h", "burgers_selftest.c"]
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == [path.name for path in told.files]
    assert told.difference is not None
    assert told.difference.export <= 2 * told.difference.torch
    header = told.files[1].read_text()
    assert "Coordinates: u __ _error, v." in header
    assert "malloc" not in "".join(path.read_text() for path in told.files)
    done = subprocess.run(told.command, shell=True, cwd=tmp_path / "made", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_two_models_live_in_one_program_and_in_cpp(tmp_path):
    for name, members in (("one", 1), ("two", 2)):
        export_c(surrogate_of(members=members), tmp_path, name=name, check=False)
    main = '#include "one.h"\n#include "two.h"\nint main(void) { static one a; static two b;'
    main += " double x[ONE_STATES] = {0}; one_init(&a, x); two_init(&b, x);"
    main += " one_step(&a, NULL, x); two_step(&b, NULL, NULL); return 0; }\n"
    (tmp_path / "main.c").write_text(main)
    command = [compiler(), *FLAGS, "main.c", "one.c", "two.c", "-lm", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "main"], check=True)


def test_files_of_two_exports_do_not_compile_together(tmp_path):
    for folder, members in (("one", 1), ("two", 2)):
        export_c(surrogate_of(members=members), tmp_path / folder, check=False)
    for file in ("model.c", "model_selftest.c"):
        command = [compiler(), *FLAGS, "-fsyntax-only", "-I", tmp_path / "one", tmp_path / "one" / file]
        subprocess.run(command, check=True)
        shutil.copy(tmp_path / "two" / file, tmp_path / "one" / file)
        mixed = subprocess.run(command, capture_output=True, text=True, check=False)
        assert mixed.returncode
        assert "model.h is of another export" in mixed.stderr


def test_the_stored_rollout_is_the_float64_one(tmp_path):
    surrogate = surrogate_of(network=False)
    probe = probe_of("burgers-32", surrogate, 10)
    export_c(surrogate, tmp_path, check=False)
    program = compile_c(tmp_path, "model", tmp_path / "program", QUICK)
    truth = surrogate.to_dtype(torch.float64).rollout(probe.window, 10)
    np.testing.assert_allclose(replay(program, probe, surrogate), truth, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["", "2nd", "a-b", "double", "x;int y", "main"])
def test_names_that_are_no_identifiers(name, tmp_path):
    with pytest.raises(InputError, match="cannot be a C identifier"):
        export_c(surrogate_of(network=False), tmp_path, name=name)


def test_float64_networks_are_not_written_as_float(tmp_path):
    with pytest.raises(InputError, match="would lose the digits of networks that were solved in float64"):
        export_c(STEPS["float64 lens"](), tmp_path, "float")
    export_c(STEPS["float64 lens"](), tmp_path, check=False)
    assert "typedef double real;" in (tmp_path / "model.c").read_text()


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("everything", None),
        *((EVERY_FUNCTION, precision) for precision in ("float", "double")),
    ],
)
def test_sanitizers_find_nothing_in_all_parts_together(name, precision, tmp_path):
    step = STEPS[name]()
    export_c(step, tmp_path, precision, check=False)
    program = compile_c(tmp_path, "model", tmp_path / "program", SANITIZED)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_precision(tmp_path):
    with pytest.raises(InputError, match="unknown precision 'single'"):
        export_c(surrogate_of(network=False), tmp_path, "single")


def test_without_a_compiler_it_is_written_and_said(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    told = export_c(surrogate_of(network=False), tmp_path)
    assert told.difference is None
    assert told.command.startswith("cc -std=c99")
    with pytest.raises(InputError, match="no C compiler was found"):
        compile_c(tmp_path, "model", tmp_path / "program")


@pytest.mark.parametrize("name", FIELDS)
def test_fields(name, tmp_path):
    surrogate = field_of(**FIELDS[name])
    probe = field_probe(surrogate)
    export_c(surrogate, tmp_path, check=False)
    program = compile_c(tmp_path, "model", tmp_path / "program", SANITIZED)
    difference = probe.compare("C", surrogate, replay(program, probe, surrogate))
    assert difference.export <= field_bar(difference, surrogate)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_fields_in_double(tmp_path):
    surrogate = field_of(**FIELDS["plane"])
    probe = field_probe(surrogate)
    export_c(surrogate, tmp_path, "double", check=False)
    program = compile_c(tmp_path, "model", tmp_path / "program", QUICK)
    assert probe.compare("C", surrogate, replay(program, probe, surrogate)).export <= 1e-13
