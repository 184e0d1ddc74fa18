import ast
import importlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "validation" / "mutants"


@pytest.fixture
def find(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("validation.mutants.find")


SAMPLE = '''
"""Docstring."""
from typing import TYPE_CHECKING
import logging

if TYPE_CHECKING:
    SIZE = 3

__all__ = ["shape"]
Pair = tuple[int, int] | None


def shape(values: list[int], least: int = 2, *, name: str = "x") -> int | None:
    """Nothing here changes: 1 + 1."""
    logging.info("seen", 5)
    if len(values) < least and not name:
        raise ValueError("fewer than", least + 1)
    return sum(v for a, v in zip(values[1:], values, strict=True)) * 2
'''


def test_every_kind_of_change_is_found_and_text_for_readers_is_left_alone(find):
    found = {(mutant.operator, mutant.before, mutant.after) for mutant in find.of_file(SAMPLE.encode(), "sample.py")}
    total = "sum(v for a, v in zip(values[1:], values, strict=True))"
    condition = "len(values) < least and not name"
    assert found == {
        ("default argument", "2", "3"),
        ("default argument", '"x"', "'xx'"),
        ("condition forced", condition, "True"),
        ("condition forced", condition, "False"),
        ("and/or", condition, "(len(values) < least or not name)"),
        ("comparison", "len(values) < least", "(len(values) <= least)"),
        ("comparison", "len(values) < least", "(len(values) >= least)"),
        ("not removed", "not name", "(name)"),
        ("return None", f"return {total} * 2", "return None"),
        ("arithmetic", f"{total} * 2", f"({total.replace('(v for', '((v for').replace('True))', 'True)))')} / 2)"),
        ("constant", "2", "3"),
        ("slice", "1:", "2:"),
        ("slice", "1:", "1:-1"),
    }


def test_the_sample_is_the_same_every_time_and_an_edit_moves_only_its_own_file(find, tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text("".join(f"def f{k}(x):\n    return x + {k}\n" for k in range(40)))
    scope = ("a.py", "b.py")
    first = find.sample(tmp_path, scope, 50, 1)
    assert first == find.sample(tmp_path, scope, 50, 1)
    assert first != find.sample(tmp_path, scope, 50, 2)
    assert len({mutant.key for mutant in find.every(tmp_path, scope)}) == len(find.every(tmp_path, scope))
    (tmp_path / "a.py").write_text("\n\n" + (tmp_path / "a.py").read_text().replace("x + 7\n", "x + 700\n"))
    moved = find.sample(tmp_path, scope, 50, 1)
    assert len({mutant.key for mutant in first} & {mutant.key for mutant in moved}) >= 47


def test_all_of_the_sample_can_be_put_in_place_and_none_of_it_lies_in_a_kernel(find):
    sample = find.sample(ROOT)
    assert len(sample) == 300
    whole = tuple(place for place, names, _ in find.KERNELS if names is None)
    assert not [mutant for mutant in sample if mutant.file.startswith(whole)]
    for place, names, _ in find.KERNELS:
        assert (ROOT / place).exists(), place
        nodes = list(ast.walk(ast.parse((ROOT / place).read_text()))) if names else []
        assert set(names or ()) <= {getattr(node, "name", getattr(node, "id", "")) for node in nodes}, place
    for mutant in sample[::10]:
        source = (ROOT / mutant.file).read_bytes()
        assert ast.dump(ast.parse(mutant.applied(source))) != ast.dump(ast.parse(source)), mutant


JUDGE = """
import json, sys
from pathlib import Path
import _hypothesis_pytestplugin, hypothesis
from validation.mutants import find, serve

tree = Path(sys.argv[1])
server = serve.Server(tree, tree.parent)
source = (tree / "src/larger.py").read_bytes()
for mutant in find.of_file(source, "src/larger.py"):
    with server.changed(mutant.file, mutant.applied(source)):
        verdict = server.test(["tests/test_larger.py::test_larger"], 20)
    print(json.dumps([mutant.before, mutant.after, verdict.status, verdict.by]))
print(json.dumps(sorted(server.failing([f"tests/test_larger.py::test_{name}" for name in ("larger", "gone", "bad")]))))
"""


def test_a_change_that_shows_is_killed_and_one_that_cannot_show_survives(tmp_path):
    tree = tmp_path / "tree"
    for name, text in {
        "src/larger.py": "def larger(a, b):\n    while a > b:\n        return a\n    return b\n",
        "tests/test_larger.py": "from larger import larger\n\n\ndef test_larger():\n    assert larger(1, 2) == 2\n"
        "    assert larger(2, 1) == 2\n\n\ndef test_bad():\n    assert not larger(1, 2)\n",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    before = (tree / "src/larger.py").read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", JUDGE, str(tree)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    *verdicts, broken = [json.loads(line) for line in done.stdout.splitlines()]
    test = "tests/test_larger.py::test_larger"
    assert sorted(verdicts) == [
        ["a > b", "(a <= b)", "killed", test],
        ["a > b", "(a >= b)", "survived", ""],  # the same number either way
        ["a > b", "False", "killed", test],
        ["return a", "return None", "killed", test],
        ["return b", "return None", "killed", test],
    ]
    assert broken == ["tests/test_larger.py::test_bad", "tests/test_larger.py::test_gone"]
    assert (tree / "src/larger.py").read_bytes() == before


def test_a_kill_holds_while_the_test_is_what_it_was(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    proof = importlib.import_module("validation.mutants.__main__").proof
    file, by = tmp_path / "test_a.py", "test_a.py::test_one[3]"
    file.write_text("def test_one(k):\n    assert k\n\n\ndef test_two():\n    assert 1\n")
    first = proof(tmp_path, by)
    file.write_text("LIMIT = 2\n\n\n" + file.read_text().replace("assert 1", "assert 2"))
    assert first == proof(tmp_path, by)  # moved; another test changed
    file.write_text(file.read_text().replace("assert k", "assert k >= 0"))
    assert first != proof(tmp_path, by)
    assert proof(tmp_path, "test_gone.py::test_one") == proof(tmp_path, "it did not end in time") == ""
    inherited = proof(tmp_path, "test_a.py::test_elsewhere")
    file.write_text(file.read_text() + "\n\nMORE = 1\n")
    assert inherited != proof(tmp_path, "test_a.py::test_elsewhere")


def test_a_map_of_the_tests_serves_until_they_or_the_code_in_question_change(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    cover = importlib.import_module("validation.mutants.cover")
    for name in ("test_a.py", "a.py", "b.py"):
        (tmp_path / name).write_text("pass\n")
    state = {name: cover.digest([tmp_path / name]) for name in ("test_a.py", "a.py", "b.py")}
    cover.Seen({}, {}, state).write(tmp_path / "map.json")
    seen = cover.Seen.read(tmp_path / "map.json")
    assert seen.serves(tmp_path, "test_a.py", {"a.py", "never_run.py"})
    (tmp_path / "b.py").write_text("...\n")
    assert seen.serves(tmp_path, "test_a.py", {"a.py"})
    assert not seen.serves(tmp_path, "test_a.py", {"a.py", "b.py"})
    (tmp_path / "test_a.py").write_text("...\n")
    assert not seen.serves(tmp_path, "test_a.py", {"a.py"})


def test_stored_survivors_all_have_a_reason_and_enough_was_killed():
    stored = json.loads((FOLDER.parent / "results" / "mutants.json").read_text())
    reasons = {entry["key"]: entry for entry in tomllib.loads((FOLDER / "survivors.toml").read_text())["survivor"]}
    survived = {record["key"] for record in stored["mutants"] if record["status"] == "survived"}
    assert len(stored["mutants"]) == 300
    assert len(survived) <= 45  # 15 %
    assert survived <= set(reasons)
    assert all(entry["kind"] in ("equivalent", "performance", "message", "unreachable") for entry in reasons.values())
