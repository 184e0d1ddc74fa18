import pytest

from lln.core.errors import InputError
from lln.core.folders import output_folder


def test_a_missing_folder_is_made(tmp_path):
    assert output_folder(tmp_path / "a" / "b").is_dir()


def test_a_file_in_the_way_gets_one_sentence(tmp_path):
    (tmp_path / "taken").write_text("")
    for path in (tmp_path / "taken", tmp_path / "taken" / "below"):
        with pytest.raises(InputError, match=r"taken.*: cannot be made a folder \(.+\); choose another to write to"):
            output_folder(path)
