import json

import torch
from typer.testing import CliRunner

import lln
from lln.cli.app import app
from lln.ops.cpu import backend as cpu_backend


def run(*words, **env):
    return CliRunner().invoke(app, ["doctor", *words], env={"COLUMNS": "80", "TERM": "dumb", **env})


def test_text():
    done = run()
    assert done.exit_code == 0
    assert f"torch=={torch.__version__.split('+')[0]}" in done.stdout
    assert "float32 on cpu: backend" in done.stdout
    assert "  triton     the operands are on cpu" in done.stdout
    assert "  reference  could serve" in done.stdout


def test_json():
    facts = json.loads(run("--json").stdout)
    assert facts["versions"]["lln"] == lln.__version__
    assert facts["threads"] == torch.get_num_threads()
    assert set(facts["backends"]["cpu"]["reasons"]) == {"triton", "cpu", "eager", "reference"}
    if cpu_backend.unavailable() is None:
        assert facts["backends"]["cpu"]["serves"] == "cpu"
        assert facts["instructions"] == cpu_backend.level()


def test_what_is_missing_is_said(monkeypatch):
    monkeypatch.setattr(cpu_backend, "unavailable", lambda: "llvmlite, which comes with numba, is not installed")
    done = run()
    assert "backend 'eager' serves" in done.stdout
    assert "  cpu        llvmlite, which comes with numba, is not installed" in done.stdout
    assert "missing:\n  fused CPU kernels: llvmlite, which comes with numba, is not installed" in done.stdout


def test_a_cache_that_cannot_be_written_is_said(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = run(XDG_CACHE_HOME=str(blocked))
    if cpu_backend.unavailable() is None:
        assert "cache of kernels: none" in done.stdout
        assert "a cache folder for kernels" in done.stdout
