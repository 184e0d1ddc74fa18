import json
from dataclasses import replace
from decimal import Decimal

import pytest
from typer.testing import CliRunner

import lln.paper.theory.audit
from lln.cli.app import app
from lln.cli.paper import verdict
from lln.paper.theory.audit import audit_ratios


def run(*words):
    return CliRunner().invoke(app, ["audit", *words], env={"COLUMNS": "80", "TERM": "dumb"})


def test_tables_and_verdict():
    done = run()
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[-1] == "100 of 100 ratios agree with the printed ones."
    assert any(line.startswith("31 of them had an input chosen by the printed value itself") for line in lines)
    assert max(map(len, lines)) <= 80
    assert "…" not in done.stdout
    assert sum("reactiondiff-48" in line for line in lines) == 5
    assert sum(line.endswith("   yes") for line in map(str.rstrip, lines)) == 50


def test_json():
    done = run("--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert (found["agree"], found["of"]) == (100, 100)
    assert found["ratios"][0] == {
        "table": "depth 40",
        "depth": 40,
        "system": "lorenz-24",
        "comparator": "mlp",
        "column": "parameters",
        "computed": "28.5",
        "printed": "28.5",
        "agrees": True,
        "inferred": False,
    }
    assert sum(ratio["inferred"] for ratio in found["ratios"]) == 31


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_difference_is_named_and_leaves_with_1(monkeypatch, words):
    ratios = audit_ratios()
    ratios[5] = replace(ratios[5], computed=Decimal("32.1"))
    monkeypatch.setattr(lln.paper.theory.audit, "audit_ratios", lambda: ratios)
    done = run(*words)
    assert done.exit_code == 1
    if words:
        assert json.loads(done.stdout)["agree"] == 99
    else:
        assert "differs: depth 40 table, D = 40, springchain-32, operations: computed 32.1, printed 32.0" in done.stdout
        assert done.stdout.splitlines()[-1] == "99 of 100 ratios agree with the printed ones."
        assert "NO" in done.stdout
    assert verdict(ratios).startswith("differs")
