import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lln.paper
from lln.cli.app import app
from lln.cli.paper import ORDER, TABLES, _clock, _line, _studies
from lln.core.errors import InputError
from lln.paper.expand import expand
from lln.paper.records import read_records, read_times
from lln.paper.reproduce import BlockProgress
from lln.paper.spec import paper_studies

SMOKE = Path(lln.paper.__file__).parent / "smoke" / "trajectories.toml"


def test_blocks_go_by_code_or_table_in_one_order():
    assert set(ORDER) == set(paper_studies())
    assert {code for codes in TABLES.values() for code in codes} == set(ORDER)
    assert [study.block for study in _studies([], None)] == list(ORDER)
    assert [study.block for study in _studies(["g0", "depth-40"], None)] == ["R0", "SC-C", "L28-C", "G0"]


def test_an_unknown_block_names_the_nearest():
    with pytest.raises(InputError, match="unknown block 'gradient'; did you mean 'gradients'"):
        _studies(["gradient"], None)
    with pytest.raises(InputError, match="not both"):
        _studies(["G0"], SMOKE)


def test_progress_says_done_running_failed_and_time_left():
    progress = BlockProgress("R0", total=9, done=4, failed=1, running=2)
    assert _line(progress) == "R0: 4 of 9 runs done, 2 running, 1 failed"
    progress.seconds_left = 61.0
    assert _line(progress).endswith("1 failed,   1 min 01 s left")
    assert _clock(7199.6) == "120 min 00 s"


def test_a_study_file_runs_and_a_second_call_does_nothing(tmp_path):
    words = ["reproduce", "--study", str(SMOKE), "--out", str(tmp_path / "out"), "--jobs", "1"]
    first = CliRunner().invoke(app, words)
    assert first.exit_code == 0, first.output
    assert "SMOKE-MT" in first.stdout
    assert "3 of 3 runs" in first.stdout
    assert "nothing was run" not in first.stdout
    lines = (tmp_path / "out" / "records.jsonl").read_bytes()
    second = CliRunner().invoke(app, words)
    assert second.exit_code == 0
    times = [json.loads(line) for line in (tmp_path / "out" / "times.jsonl").read_text().splitlines()]
    made = max(time["provenance"]["date"] for time in times)[:10]
    said = " ".join(second.stdout.split())
    assert f"nothing was run: all of these runs are stored in {tmp_path / 'out'}, made" in said
    assert f"{made}; to run them afresh give another folder, as in --out results/mine" in said
    assert (tmp_path / "out" / "records.jsonl").read_bytes() == lines
    assert {record.spec["kind"] for record in read_records(tmp_path / "out").values()} == {"multi-trajectory"}
    assert times[0]["seconds"] > 0


def test_the_stored_run_is_whole_and_every_line_has_its_checksum():
    folder = Path(__file__).parents[3] / "results" / "paper"
    records = read_records(folder)  # also checks the checksums
    whole = {run.digest for study in paper_studies().values() for run in expand(study)}
    confirmed = paper_studies()["C0"].confirm.seeds
    assert whole <= set(records)
    assert {records[digest].spec["seeds"] == list(confirmed) for digest in set(records) - whole} == {True}
    for name in ("records.jsonl", "times.jsonl"):
        assert all("sum" in json.loads(line) for line in (folder / name).read_text().splitlines()), name
    assert "sum" in json.loads((folder / "blocks.json").read_text())
    hours = sum(timing.seconds for timing in read_times(folder).values()) / 3600
    page = " ".join((folder.parents[1] / "docs" / "paper-results.md").read_text().split())
    assert f"all **{len(records)} runs**" in page
    assert f"The stored runs took {hours:.1f} hours of one core" in page
