import pytest
from browser import needs_browser
from measure import FRAMES, FRESH, RELEASE, best, measured


@needs_browser
@pytest.mark.slow
def test_a_drag_of_the_largest_model_is_followed_at_thirty_frames_a_second(tmp_path):
    _, drags = measured(tmp_path)
    assert all(drag["fresh_steps"] >= FRESH for drag in drags)
    assert best(drags)["frames_per_second"] >= FRAMES
    assert min(drag["all_steps_ms"] for drag in drags) <= RELEASE
