import numpy as np
import pytest
from browser import drive, needs_browser
from exported import states_of, surrogate_of

from lln.data.series import Series
from lln.evaluate.rollout import Region
from lln.forecaster.layout import Layout
from lln.view.page import build_page

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
    return drive(folder, "interact", {name: str(folder / f"{name}.html") for name in ("few", "field", "hostile")})


def differs(a, b):
    return np.abs(np.array(a["end"]) - np.array(b["end"])).max() > 1e-6


def test_dragging_the_start_changes_the_future_and_reset_brings_it_back(told):
    assert told["spotInside"]
    assert told["dragged"]["moved"]
    first, dragged = np.array(told["first"]["start"]), np.array(told["dragged"]["start"])
    assert (dragged != first)[:2].all()
    assert dragged[2] == first[2]  # it does not lie in the plane that was dragged
    assert differs(told["dragged"], told["first"])
    assert told["draggedStatus"].startswith("The start has been moved")
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


@pytest.mark.parametrize("page", ["few", "field", "narrow"])
def test_axe_finds_nothing_serious(told, page):
    assert told[f"{page}Axe"] == []


@pytest.mark.parametrize("page", ["few", "field", "narrow", "hostile"])
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
