import pytest

from lln.core.errors import InputError
from lln.core.safe_files import UserCache, output_folder


def test_a_missing_folder_is_made(tmp_path):
    assert output_folder(tmp_path / "a" / "b").is_dir()


def test_a_file_in_the_way_gets_one_sentence(tmp_path):
    (tmp_path / "taken").write_text("")
    for path in (tmp_path / "taken", tmp_path / "taken" / "below"):
        with pytest.raises(InputError, match=r"taken.*: a folder that cannot be created \(.+\); choose another"):
            output_folder(path)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "lln" / "things"


def test_a_cache_is_this_users_alone(cache):
    assert UserCache("things").location() == cache
    assert cache.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o722, 0o770, 0o702])
def test_a_cache_that_others_may_write_to_is_not_used(cache, mode):
    cache.mkdir(parents=True)
    cache.chmod(mode)
    assert (UserCache("things").location() is None) == bool(mode & 0o022)


def test_a_cache_of_somebody_else_is_not_used(cache, monkeypatch):
    assert UserCache("things").location() == cache
    monkeypatch.setattr("os.getuid", lambda: cache.stat().st_uid + 1)
    assert UserCache("things").location() is None


def test_no_place_for_a_cache_is_no_trouble(cache):
    cache.parent.parent.write_text("in the way")
    assert UserCache("things").location() is None
