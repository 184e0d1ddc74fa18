import html
import json
import math
import re
import shutil
from html.parser import HTMLParser

import pytest
from browser import drive, needs_browser
from paper_records import Writer, full_writer, lens_options, rollout
from typer.testing import CliRunner

from lln.cli.app import app
from lln.core.errors import InputError
from lln.core.statistics import Summary
from lln.paper.printed_values import SYSTEMS
from lln.paper.records import Entry, Record, RecordStore
from lln.paper.report import Verdict, build_document, write_report
from lln.paper.report.claims import FAILS, HOLDS, IN_NOISE, NOT_RUN, OTHER_SIZE, all_claims
from lln.paper.report.compare import Evidence
from lln.paper.report.document import to_markdown
from lln.paper.report.identified import fingerprint_table, search_table, sensitivity_counts, sensitivity_table
from lln.paper.report.names import as_printed, mean_and_deviation, plain_number, power, quotient
from lln.paper.report.other_tables import ablation_table, multi_trajectory_table
from lln.paper.report.rollout_tables import (
    Cells,
    all_depths_tables,
    cells_agreeing,
    depth40_table,
    linear_wins,
    ratio_texts,
    reference_table,
)
from lln.paper.theory.audit import audit_ratios


@pytest.fixture(scope="session")
def evidence(printed_records):
    return Evidence.read(printed_records)


@pytest.fixture(scope="session")
def report(printed_records, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return folder, write_report(printed_records, folder, audit_ratios())


def test_records_with_the_printed_values_agree_in_every_row(evidence):
    tables = build_document(evidence).sections[0].tables[0].table.cells()
    assert tables[-1] == ["All", "80", "80", "0", "0", "0"]
    assert cells_agreeing(evidence) == Cells(240, 240, 240)


def test_every_claim_holds_on_the_printed_values(evidence):
    claims = all_claims(evidence)
    assert [claim.outcome for claim in claims] == [HOLDS] * len(claims)
    counts = {claim.text: claim.here for claim in claims}
    assert counts["At D = 40, LLN has a lower mean than the selected comparator"] == "9 of 10"
    assert counts["On unseen trajectories, LLN has the lower geometric mean"] == "7 of 10"
    assert counts["On unseen trajectories, the 95 % interval of the ratio lies below one"] == "5 of 10"
    assert counts["The full structure is best of the four variants"] == "9 of 10"
    assert counts["LLN is closest to neutral gradient transport"] == "10 of 10"


def changed(block, role, system, factor, model="lens"):
    """The printed records, but one cell multiplied."""
    writer = full_writer()
    for index, entry in enumerate(writer.blocks[block]):
        record = writer.records[entry.digest]
        if entry.role == role and record.spec["system"] == system and record.spec["model"] == model:
            mse = [factor * v if isinstance(v, float) else [factor * w for w in v] for v in record.result["mse"]]
            writer.records[entry.digest] = Record(record.spec, {**record.result, "mse": mse})
            assert writer.blocks[block][index].digest == entry.digest
    return Evidence(writer.records, writer.blocks, {})


def test_a_claim_that_fails_says_where_and_by_how_much():
    claims = {claim.text: claim for claim in all_claims(changed("R0", "row", "lorenz-24", 1.5))}
    failed = claims["At D = 40, LLN has a lower mean than the selected comparator"]
    assert (failed.outcome, failed.here) == (FAILS, "8 of 10")
    assert failed.difference == "not on Lorenz-24 (LLN 9.255, Plain MLP 7.516)"


def test_a_claim_lost_by_less_than_two_standard_errors_holds_within_noise():
    claims = {claim.text: claim for claim in all_claims(changed("R0", "row", "lorenz-24", 1.22))}
    lost = claims["At D = 40, LLN has a lower mean than the selected comparator"]
    assert (lost.outcome, lost.here) == (IN_NOISE, "8 of 10")
    assert lost.difference == "not on Lorenz-24, within noise (LLN 7.527, Plain MLP 7.516)"


def test_the_report_tells_what_is_identified_before_the_tables_and_the_claims_after_them(evidence):
    titles = [section.title for section in build_document(evidence).sections]
    assert titles[:3] == ["Summary", "What is identified", "Depth-40 rollouts"]
    assert titles.index("The paper's claims") > titles.index("Optical case study")
    first = build_document(evidence).sections[0]
    assert any("48 of 48 scores" in point for point in first.points)
    assert any("40 of 40 comparator scores agree" in point for point in first.points)
    assert all(len(point) < 240 for point in first.points)


def test_fingerprints_mark_printed_digits(evidence):
    row = fingerprint_table(evidence).table.cells()[0]
    assert row[1] == "7.516 ± 0.010 [7.516 ± 0.010] ="
    off = fingerprint_table(changed("R0", "row", "lorenz-24", 1.0005, model="mlp")).table.cells()[0]
    assert off[1] == "7.520 ± 0.010 [7.516 ± 0.010] ≈"


def test_the_stored_search_and_the_batch_64_run_are_shown_where_they_lie_beside_the_records(evidence, tmp_path):
    assert search_table(tmp_path) == []
    assert sensitivity_table(evidence, tmp_path) == []
    families = ("springchain", "burgers", "advecdiff", "reactiondiff")
    (tmp_path / "search.json").write_text(json.dumps({f: {"settings": 2_000_000, "best": []} for f in families}))
    assert "8 million settings in all" in search_table(tmp_path)[0].notes[0]
    cells = [
        [system, depth, model, 0.5 if model == "mlp" else (None if model == "residual" else 1.0), 0.1]
        for system in SYSTEMS
        for depth in (5, 40)
        for model in ("lens", "mlp", "residual", "scaled-residual", "residual-batchnorm", "layerscale")
    ]
    (tmp_path / "batch64.json").write_text(json.dumps({"cells": cells}))
    row = sensitivity_table(evidence, tmp_path)[0].table.cells()[0]
    assert row[:5] == ["Lorenz-24", "6.778", "7.348", "1.000", "0.500"]
    assert sensitivity_counts(tmp_path) == (10, 10)


def test_a_row_with_another_winner_differs_and_one_of_another_size_is_told_apart():
    table = depth40_table(changed("R0", "row", "burgers-32", 0.5), {})
    assert table.verdicts[4] is Verdict.OTHER_SIZE
    assert table.table.cells()[4][4] == "0.50"
    assert depth40_table(changed("R0", "row", "burgers-32", 10.0), {}).verdicts[4] is Verdict.DIFFER


def test_the_comparator_is_the_lowest_of_our_own_runs():
    table = depth40_table(changed("R0", "row", "burgers-32", 0.9, model="layerscale"), {}).table
    assert table.cells()[4][5] == "LayerScale (Plain MLP)"
    assert table.cells()[4][6] == "1.908 ± 0.055"


def test_the_horizon_with_the_lowest_mean_is_the_row(evidence):
    found = evidence.row("burgers-32", 5, "lens")
    assert found.spec["options"]["horizon"] == 1.0
    assert evidence.row_score("burgers-32", 5, "lens").mean == pytest.approx(0.969)


def test_all_depths_layout(evidence):
    first = all_depths_tables(evidence, ratio_texts(audit_ratios()))[0].table
    here, printed, ratio = first.cells()[:3]
    assert here[:5] == ["Lorenz-24", "here", "6.778 ± 2.160", "7.510 ± 0.066", "∞"]
    assert printed[:5] == ["", "printed", "6.778 ± 2.160", "7.510 ± 0.066", "∞"]
    assert ratio[2:5] == ["1.00", "1.00", "–"]
    assert here[8:] == ["0.922", "0.054", "0.301", "agree"]
    assert {(0, 2), (1, 2)} <= set(first.best)


def test_ablation_shows_divergent_means_in_powers(evidence):
    cells = ablation_table(evidence).table.cells()
    assert cells[3][2:6] == ["1.03 ± 0.48", "1.37 ± 0.66", "5.6×10¹⁰", "1.0×10⁵"]
    assert cells[4][2:6] == cells[3][2:6]
    assert cells[0][5] == "∞"


def test_intervals_below_one_are_bold(evidence):
    table = multi_trajectory_table(evidence).table
    assert [row for row, column in table.best if column == 7] == [3, 4, 5, 7, 9]
    assert [row for row, column in table.best if column == 8] == [3, 4, 5, 7, 9]


def test_reference_rows(evidence):
    table = reference_table(evidence, "R0", "SC-C", "L28-C").table
    assert [row[0] for row in table.rows] == ["Mean of the training data", "Linear least squares on increments"]
    assert len(table.columns) == 1 + len(SYSTEMS)
    assert table.cells()[1][1] == "2.50×10⁻¹¹"
    titles = [[part.table.title for part in s.tables] for s in build_document(evidence).sections]
    assert sum("Reference rows" in names for names in titles) == 4


def test_the_summary_says_where_a_linear_map_is_enough(evidence, writer: Writer):
    assert linear_wins(evidence) == (10, 10)
    worse = full_writer()
    worse.add("R0", "reference", *rollout("lorenz-24", "linear", [10.1]))
    worse.blocks["R0"] = [e for e in worse.blocks["R0"] if worse.records[e.digest].result["mse"] != [2.5e-11]]
    assert linear_wins(Evidence(worse.records, worse.blocks, {})) == (3, 4)
    assert linear_wins(Evidence(writer.records, writer.blocks, {})) == (0, 0)


def test_protocol_index(evidence):
    table = build_document(evidence).sections[-1].tables[0].table
    rows = {row[0]: row[2:6] for row in table.cells()}
    assert rows["G0"] == ["10", "10", "40", "40"]
    assert rows["MT"][:2] == ["10", "6"]
    assert len(rows) == 10


def test_incomplete_records_are_shown_as_missing_with_what_to_run(writer: Writer, tmp_path):
    writer.add("R0", "row", *rollout("lorenz-24", "lens", [1.0, 2.0], **lens_options(40)))
    lost = Record(rollout("lorenz-24", "mlp", [1.0], depth=40)[0])
    writer.blocks["R0"].append(Entry(lost.digest, "row"))
    writer.write(tmp_path)
    text = to_markdown(build_document(Evidence.read(tmp_path)))
    assert "missing (Plain MLP)" in text
    assert "run `lln reproduce SC-C L28-C`" in text
    assert "run `lln reproduce MT`" in text
    assert "| All                    |   80 |     0 |" in text
    assert all(claim.outcome == NOT_RUN for claim in all_claims(Evidence.read(tmp_path)))


def test_a_crashed_run_is_counted(tmp_path):
    spec, _ = rollout("lorenz-24", "lens", [1.0, 2.0], **lens_options(40))
    with RecordStore(tmp_path) as store:
        store.add(Record(spec, {}, "failed", "out of memory"))
        store.set_blocks({"R0": [Entry(Record(spec).digest, "row")]})
    found = Evidence.read(tmp_path)
    assert found.unfinished("R0") == (0, 1)
    notes = depth40_table(found, {}).notes
    assert "1 runs crashed; `lln reproduce R0 SC-C L28-C` tries them again." in notes


def test_a_trial_run_is_compared_with_nothing(writer: Writer):
    spec, result = rollout("lorenz-24", "lens", [1.0, 2.0], **lens_options(40))
    writer.add("R0", "row", {**spec, "data": {"pairs": 128, "steps": 20}}, result)
    document = build_document(Evidence(writer.records, writer.blocks, {}))
    assert document.sections[0].text[0].startswith("This is a shortened trial run")
    assert document.sections[0].tables[0].table.cells()[-1] == ["All", "80", "0", "0", "0", "80"]


def test_case_claims_tell_order_and_size_apart(writer: Writer, evidence):
    (case,) = evidence.runs("CS")
    numbers = {"error_turn": 29.0, "correct_turn": 28.0, "explained": {"lens": [0.3, 0.2], "mlp": [0.4, 0.2]}}
    writer.add("CS", "case", case.spec, {**case.result, **numbers})
    claims = [c for c in all_claims(Evidence(writer.records, writer.blocks, {})) if c.outcome != NOT_RUN]
    assert [claim.outcome for claim in claims] == [FAILS, OTHER_SIZE, HOLDS]
    assert claims[1].difference == "here over printed: 1.71, 1.77"


def test_files(report):
    folder, files = report
    figures = ("depth_sweep", "gradient_transport", "case_study", "case_refraction", "case_overview", "rollout_curves")
    expected = {"summary.md", "report.md", "report.tex", "report.html"}
    expected |= {f"figures/{name}.{kind}" for name in figures for kind in ("svg", "png")}
    assert {str(path.relative_to(folder)) for path in files} == expected
    assert all(path.stat().st_size > 1000 for path in files)


def test_the_page_needs_nothing_else(report):
    folder, _ = report
    text = (folder / "report.html").read_text()

    class Links(HTMLParser):
        def __init__(self):
            super().__init__()
            self.found, self.open_tags = [], []

        def handle_starttag(self, tag, attrs):
            self.found += [value for key, value in attrs if key in ("src", "href")]
            if tag not in ("meta", "img"):
                self.open_tags.append(tag)

        def handle_endtag(self, tag):
            assert self.open_tags.pop() == tag

    page = Links()
    page.feed(text)
    assert page.open_tags == []
    assert "></th>" not in text
    assert all(link.startswith(("data:image/svg+xml;base64,", "#")) for link in page.found)
    assert sum(link.startswith("data:") for link in page.found) == 6
    assert "<strong>6.170 ±\u00a00.953</strong>" in html.unescape(text)
    assert re.search(r'<td class="verdict agree[^"]*" data-label="[^"]+">agree</td>', text)


@needs_browser
def test_the_page_never_scrolls_sideways_and_has_a_dark_mode(report):
    folder, _ = report
    told = drive(folder, "widths", {"page": str(folder / "report.html"), "widths": [390, 1041, 1300, 1366, 1920]})
    assert {key: one["wide"] for key, one in told.items() if one["wide"] > 0} == {}
    assert told["390 light"]["paper"] == "rgb(255, 255, 255)" != told["390 dark"]["paper"]


def test_latex_is_balanced_and_plain_ascii(report):
    folder, _ = report
    text = (folder / "report.tex").read_text()
    assert text.isascii()
    opened, closed = (re.findall(rf"\\{word}{{(\w+)}}", text) for word in ("begin", "end"))
    assert sorted(opened) == sorted(closed)
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == text.count(r"\begin{table}")
    for block in re.findall(r"\\begin{tabular}{@{}([^\n]*)@{}}\n\\toprule\n(.*?)\\bottomrule", text, flags=re.DOTALL):
        kinds, body = block
        columns = len(re.findall(r"p{55mm}|[lr]", kinds))
        rows = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {columns}
    # An unescaped per cent sign would hide the rest of its line.
    assert re.search(r"(?<!\\)%", text) is None
    assert r"\textbf{6.170 $\pm$ 0.953}" in text
    assert r"5.6$\times$10$^{10}$" in text


def test_the_command_writes_the_same_bytes(printed_records, report, tmp_path):
    folder, files = report
    done = CliRunner().invoke(app, ["report", "--records", str(printed_records), "--out", str(tmp_path / "here")])
    assert done.exit_code == 0
    assert str(tmp_path / "here" / "report.html") in done.stdout
    for path in files:
        assert path.read_bytes() == (tmp_path / "here" / path.relative_to(folder)).read_bytes()
    # The counted ratios are there.
    assert "28.5 (28.5)" in (tmp_path / "here" / "report.md").read_text()


def test_an_empty_folder_is_told_what_to_run(tmp_path):
    with pytest.raises(InputError, match="holds no records; run `lln reproduce"):
        write_report(tmp_path)
    with pytest.raises(InputError, match="no such folder of records"):
        write_report(tmp_path / "nowhere")
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize(
    ("summary", "text"),
    [(None, "missing"), (Summary(math.inf, math.inf, 3), "∞"), (Summary(1e4, 5.0, 3), "∞"),
     (Summary(1.1358, 0.000481, 3), "1.136 ± 4.81×10⁻⁴"), (Summary(2.0, math.nan, 1), "2.000"),
     (Summary(0.0421, 0.031, 3), "0.042 ± 0.031")],
)  # fmt: skip
def test_scores_look_as_in_print(summary, text):
    assert mean_and_deviation(summary) == text


def test_numbers_of_the_report():
    assert power(1.9e16) == "1.9×10¹⁶"
    assert mean_and_deviation(Summary(5.6e10, 1e11, 3), powers=True) == "5.6×10¹⁰"
    assert [plain_number(v) for v in (0.05, 1e-7, math.inf, math.nan)] == ["0.050", "1.00×10⁻⁷", "∞", "–"]
    assert quotient(2.0, 4.0) == "0.50"
    assert quotient(math.inf, 4.0) == quotient(1.0, 0.0) == "–"
    from lln.paper.printed_values import all_depths

    spring = next(row for row in all_depths() if (row.depth, row.system) == (20, "springchain-48"))
    assert as_printed(spring.mlp) == "1.136 ± 4.81×10⁻⁴"
