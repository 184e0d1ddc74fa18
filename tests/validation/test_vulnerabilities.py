import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAFE = {"name": "numpy", "version": "2.4.6", "vulns": []}
HIT = {"name": "pillow", "version": "9.0", "vulns": [{"id": "PYSEC-2022-9", "fix_versions": ["9.0.1"], "aliases": []}]}
SKIPPED = {"name": "torch", "skip_reason": "Dependency not found on PyPI and could not be audited: torch (2.13.0)"}


@pytest.fixture(scope="module")
def script():
    place = importlib.util.spec_from_file_location("vulnerabilities", ROOT / "validation" / "vulnerabilities.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


def test_all_looked_up_and_none_found(script):
    lines, code = script.verdict("pypi", {"dependencies": [SAFE]})
    assert (lines, code) == (["pypi: 1 of 1 pinned versions looked up, 0 known vulnerabilities"], 0)


def test_a_vulnerability_is_named_with_its_mend(script):
    lines, code = script.verdict("pypi", {"dependencies": [SAFE, HIT, SKIPPED]})
    assert code == 1
    assert lines[0] == "pillow 9.0: PYSEC-2022-9, mended in 9.0.1"


def test_what_was_not_looked_up_is_not_called_safe(script):
    lines, code = script.verdict("pypi", {"dependencies": [SAFE, SKIPPED]})
    assert code == 2
    assert lines[-1].endswith("did not answer for them: torch")


def test_a_service_that_cannot_be_reached_is_said_and_is_no_pass(script, monkeypatch, capsys):
    monkeypatch.setattr(script, "ask", lambda _: "no route")
    assert script.main() == 2
    assert "osv: cannot be reached (no route)" in capsys.readouterr().out


def test_the_second_service_is_asked_when_the_first_knows_nothing(script, monkeypatch):
    answers = {"pypi": {"dependencies": [SKIPPED]}, "osv": {"dependencies": [SAFE]}}
    monkeypatch.setattr(script, "ask", answers.get)
    assert script.main() == 0


def test_every_pin_is_one_version_of_one_package():
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    names = [pin.split("==")[0].lower() for pin in pins]
    assert all(pin.count("==") == 1 for pin in pins)
    assert len(set(names)) == len(names)
