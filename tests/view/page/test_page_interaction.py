import numpy as np
import pytest
from browser import drive, needs_browser
from exported import states_of, surrogate_of
from test_page_fields import CASES, start

from lln.data.series import Series
from lln.evaluate.rollout import Region
from lln.forecaster.layout import Layout
from lln.systems import preset, simulate
from lln.view.page import build_page
from lln.view.page.payload import Run

pytestmark = needs_browser

HOSTILE = '</script><script>window.pwned=1</script><img src=x onerror="window.pwned=1">'


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    few, states = surrogate_of("lorenz-28", width=16, depth=5), states_of("lorenz-28")
    plain = Layout(("x", "y", "z"), 0.01, units={"time": "s"}, source="lorenz-28")
    low, high = states.min(axis=0), states.max(axis=0)
    runs = [Series(states[2400:3000], name="first"), Series(states[:300], name="second")]
    (folder / "few.html").write_text(
        build_page(
            few, plain, runs, title="Lorenz", steps=200, region=Region(low, high), numbers=[("Model", [("n", "3")])]
        )
    )
    wave, points = surrogate_of("burgers-32", width=16, depth=5), states_of("burgers-32")
    ring = Layout(tuple(f"u{i}" for i in range(32)), 0.001, (32,), ("u",), {"x": np.arange(32.0)})
    (folder / "field.html").write_text(build_page(wave, ring, [Series(points[2400:2700])], title="Burgers", steps=200))
    bad = Layout((HOSTILE, "y<b>", "z"), 0.01, units={HOSTILE: HOSTILE, "time": HOSTILE}, time_name=HOSTILE)
    (folder / "hostile.html").write_text(
        build_page(
            few, bad, [Series(states[2400:2700], name=HOSTILE), Series(states[:99], name="@script@")],
            title=HOSTILE, subtitle=HOSTILE, steps=50, numbers=[(HOSTILE, [(HOSTILE, HOSTILE)])],
        )
    )  # fmt: skip
    unseen = Run(
        Series(states[2000:3000], name="orbit", start=20.0), 2000, ((0, 400, "trained"), (400, 1000, "unseen")), 399
    )
    (folder / "known.html").write_text(
        build_page(
            surrogate_of("lorenz-28", width=16, depth=5), plain, [unseen], title="Known", steps=100,
            lyapunov=0.9, system=preset("lorenz-28"), notes=["Some rows were left out."],
        )
    )  # fmt: skip
    torus = CASES["a torus"]
    names = tuple(f"u{i}" for i in range(30))
    plane = Layout(names, 0.1, (5, 6), ("u",), {"lat": np.arange(5.0), "lon": np.arange(6.0)})
    window, _ = start(torus.frame)
    (folder / "plane.html").write_text(
        build_page(torus, plane, [Series(np.concatenate([window] * 4))], title="Torus", steps=20)
    )
    pushed = CASES["forced"]
    rod = Layout(tuple(f"u{i}" for i in range(10)), 0.1, (10,), ("u",), {"x": np.arange(10.0)}, ("sun", "wind"))
    window, inputs = start(pushed.frame)
    rows = Series(np.concatenate([window] * 12), np.concatenate([inputs] * 4)[:12])
    (folder / "forced.html").write_text(build_page(pushed, rod, [rows], title="Forced", steps=20))
    wanted = ("few", "field", "forced", "hostile", "known", "plane")
    return drive(folder, "interact", {name: str(folder / f"{name}.html") for name in wanted})


def differs(a, b):
    return np.abs(np.array(a["end"]) - np.array(b["end"])).max() > 1e-6


def test_dragging_the_start_changes_the_future_and_reset_brings_it_back(told):
    assert told["spotInside"]
    assert told["dragged"]["moved"]
    first, dragged = np.array(told["first"]["start"]), np.array(told["dragged"]["start"])
    assert (dragged != first)[:2].all()
    assert dragged[2] == first[2]  # it does not lie in the plane that was dragged
    assert differs(told["dragged"], told["first"])
    assert told["draggedStatus"].startswith(
        "The start was moved; its true future is unknown. Shown is the nearest state"
    )
    assert told["reset"]["start"] == told["first"]["start"]
    assert told["reset"]["end"] == told["first"]["end"]


def test_rays_are_drawn_before_anybody_scrolls_to_them(told):
    assert told["scrolled"] == 0


def test_a_finger_drags_it_too(told):
    assert told["touched"]["moved"]
    assert differs(told["touched"], told["touchBefore"])


def test_a_number_can_be_typed(told):
    assert told["typed"]["start"][0] == pytest.approx(1.5)


def test_scrub_play_and_pause(told):
    assert told["scrubbed"]["now"] == 123
    assert "step 123 of 200" in told["scrubbed"]["clock"]
    assert told["playing"]["playing"]
    assert told["playing"]["now"] > 5
    assert not told["paused"]["playing"]


@pytest.mark.parametrize("part", ["lens", "angle", "propagation"])
def test_a_switch_changes_the_rollout_and_changes_it_back(told, part):
    assert differs(told["switches"][part]["off"], told["first"])
    assert told["switches"][part]["on"]["end"] == told["first"]["end"]


def test_keys_move_the_start_play_and_walk_the_bench(told):
    assert told["arrow"]["start"] != told["first"]["start"]
    assert told["keyPlay"]["playing"]
    assert told["factsRight"].startswith("Lens 3,")
    assert told["factsUp"].startswith("Lens 3,")
    assert told["factsUp"] != told["factsRight"]


def test_pointing_at_the_bench_shows_the_lens_there(told):
    assert told["factsHover"].startswith(("Lens 4,", "Lens 5,"))


def test_a_field_is_pulled_by_mouse_and_keys(told):
    assert differs(told["fieldDragged"], told["fieldFirst"])
    pulled = np.array(told["fieldDragged"]["start"]) - np.array(told["fieldFirst"]["start"])
    assert 13 <= pulled.argmax() <= 16  # under the pointer, with the axis to its left; far away nothing
    assert abs(pulled[0]) < 1e-9
    assert told["fieldReset"]["end"] == told["fieldFirst"]["end"]
    assert differs(told["fieldKey"], told["fieldFirst"])
    assert told["fieldScrub"]["now"] > 0


def test_start_and_present_of_a_field_are_side_by_side(told):
    start, present = told["fieldPair"]
    assert present > start + 300


def test_light_and_dark(told):
    assert told["dark"] == "rgb(18, 21, 24)"
    assert told["theme"] == [
        ["light", "rgb(246, 246, 244)"],
        ["dark", "rgb(18, 21, 24)"],
        ["auto", "rgb(246, 246, 244)"],
    ]


def test_a_phone_shows_it_without_scrolling_sideways(told):
    assert told["narrow"] <= 360


def test_it_prints_without_its_controls(told):
    assert not told["print"]["toolbar"]
    assert told["print"]["size"] > 20_000


def test_a_moved_start_of_a_known_system_is_compared_with_its_simulation(told):
    known = told["known"]
    right = simulate(preset("lorenz-28"), 100, starts=np.array(known["moved"]["start"]), dtype="float64")
    np.testing.assert_allclose(known["truth"], right[-1], rtol=1e-6)
    assert "against the simulated truth the forecast is valid" in known["status"]
    assert "Lyapunov times" in known["status"]
    assert known["key"] == "simulation of lorenz-28"


def test_the_start_is_chosen_by_the_rows_of_the_file(told):
    known = told["known"]
    assert known["slider"] == ["2000", "2998", "2399"]
    assert known["note"] == "Row 2,399, counted from 0: the rows after it were not seen by the model."
    np.testing.assert_allclose(known["chosen"]["start"], states_of("lorenz-28")[2100], rtol=1e-6)
    np.testing.assert_allclose(known["keyed"]["start"], states_of("lorenz-28")[2101], rtol=1e-6)
    assert known["keyedRow"] == "2101"
    assert known["chosenNote"] == "Row 2,100, counted from 0: the rows after it trained the model."
    assert known["refused"] == ("Row 5000 cannot be a start: rows 2,000 to 2,998 can. The start stays at row 2,101.")
    assert known["after"]["start"] == known["keyed"]["start"]
    assert "(1 of 1 step)" in known["last"]
    assert "The truth ends after 1 step." in known["last"]
    assert known["notes"] == ["Some rows were left out."]


def test_a_field_in_the_plane_is_painted_and_keeps_its_shape(told):
    plane = told["plane"]
    assert "paint on the start state" in plane["words"]
    assert "drag" not in plane["words"]
    pulled = np.array(plane["painted"]["start"]) - np.array(plane["first"]["start"])
    assert np.abs(pulled).max() > 0.05
    assert differs(plane["painted"], plane["first"])
    assert differs(plane["keyed"], plane["painted"])
    wide, tall = plane["box"]
    assert tall / wide == pytest.approx(5 / 6, rel=0.03)
    assert plane["drawn"]  # the truth is on the screen before Play
    assert plane["axe"] == []


def test_known_inputs_are_drawn_along_the_forecast(told):
    forced = told["forced"]
    assert not told["inputsShown"]
    assert forced["few"] == "Known inputs"
    assert forced["first"] > 0
    assert forced["later"] > forced["first"]  # more of it is past
    assert 10 < forced["now"] < 20
    assert forced["axe"] == []


@pytest.mark.parametrize("page", ["few", "field", "narrow"])
def test_axe_finds_nothing(told, page):
    assert told[f"{page}Axe"] == []


@pytest.mark.parametrize("page", ["few", "field", "narrow", "hostile", "known", "plane", "forced"])
def test_nothing_leaves_the_page_and_nothing_fails(told, page):
    assert [url for url in told[f"{page}Seen"]["requests"] if not url.startswith(("file:", "blob:"))] == []
    assert told[f"{page}Seen"]["errors"] == []


def test_hostile_names_are_text(told):
    hostile = told["hostile"]
    assert not hostile["ran"]
    assert (hostile["images"], hostile["scripts"], hostile["links"]) == (0, 2, 1)
    assert hostile["heading"] == HOSTILE
    assert hostile["options"][0] == HOSTILE
    assert HOSTILE in hostile["cells"]
