import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from lln.core.errors import InputError
from lln.core.safe_files import whole_file


def names(folder):
    return [path.name for path in folder.iterdir()]


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


def test_a_file_appears_whole_and_nothing_is_left_beside_it(tmp_path):
    target = tmp_path / "a.txt"
    with whole_file(target) as partial:
        partial.write_text("half")
        assert not target.exists()
        partial.write_text("whole")
    assert target.read_text() == "whole"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("before", [None, "old"])
def test_an_error_leaves_what_was_there(tmp_path, before):
    target = tmp_path / "a.txt"
    if before:
        target.write_text(before)

    def broken():
        with whole_file(target) as partial:
            partial.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken()
    assert names(tmp_path) == (["a.txt"] if before else [])
    if before:
        assert target.read_text() == before


def test_a_folder_takes_the_place_of_a_folder(tmp_path):
    target = tmp_path / "a.zarr"
    for text in ("one", "two"):
        with whole_file(target) as partial:
            partial.mkdir()
            (partial / text).write_text(text)
    assert names(target) == ["two"]
    assert names(tmp_path) == ["a.zarr"]


@pytest.mark.usefixtures("umask")
def test_a_new_file_has_the_permissions_that_the_mask_gives(tmp_path):
    with whole_file(tmp_path / "a.txt") as partial:
        partial.write_text("")
    assert mode(tmp_path / "a.txt") == 0o640


def test_a_file_that_another_process_deletes_while_it_is_replaced(tmp_path, monkeypatch):
    target, copied = tmp_path / "a.txt", shutil.copymode
    target.write_text("old")

    def deleted(source, place):
        source.unlink()
        copied(source, place)

    monkeypatch.setattr(shutil, "copymode", deleted)
    with whole_file(target) as partial:
        partial.write_text("new")
    assert target.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.usefixtures("umask")
def test_a_file_that_was_private_stays_private(tmp_path):
    target = tmp_path / "a.txt"
    target.touch(mode=0o600)
    with whole_file(target) as partial:
        partial.write_text("more")
    assert (mode(target), target.read_text()) == (0o600, "more")


def test_the_name_on_the_way_cannot_be_foreseen(tmp_path):
    seen = set()
    for _ in range(20):
        with whole_file(tmp_path / "a.txt") as partial:
            seen.add(partial.parent.name)
            assert partial.name == "a.txt"
            assert partial.parent.name.startswith(".a.txt.")
            assert partial.parent.suffix == ".partial"
            assert mode(partial.parent) == 0o700
            partial.write_text("")
    assert len(seen) == 20


def test_a_link_is_replaced_and_not_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("theirs")
    (tmp_path / "a.txt").symlink_to(elsewhere)
    with whole_file(tmp_path / "a.txt") as partial:
        partial.write_text("ours")
    assert elsewhere.read_text() == "theirs"
    assert not (tmp_path / "a.txt").is_symlink()


def test_two_threads_that_write_the_same_file_leave_one_of_theirs_whole(tmp_path):
    target, together = tmp_path / "a.txt", threading.Barrier(2)
    texts = [letter * 200_000 for letter in "ab"]

    def write(text):
        with whole_file(target) as partial:
            together.wait(timeout=60)
            partial.write_text(text)

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.read_text() in texts
    assert names(tmp_path) == ["a.txt"]


def test_no_folder_to_write_to_is_said_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="there is no folder"), whole_file(tmp_path / "none" / "a.txt"):
        pass


def killed_while_writing(target, folder=False):
    """What a writer leaves that is killed before it is done."""
    process = os.fork()
    if process == 0:
        with whole_file(target) as partial:
            if folder:
                partial.mkdir()
            else:
                partial.write_text("half")
            os._exit(9)
    os.waitpid(process, 0)


@pytest.mark.parametrize("folder", [False, True])
def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path, folder):
    target = tmp_path / "a"
    killed_while_writing(target, folder)
    (left,) = tmp_path.iterdir()
    assert left.suffix == ".partial"
    other = tmp_path / left.name.replace(".a.", ".b.")
    other.mkdir()
    with whole_file(target) as partial:
        partial.write_text("whole")
    assert set(tmp_path.iterdir()) == {other, target}


def test_what_another_writer_is_writing_is_left_alone(tmp_path):
    target = tmp_path / "a"
    with whole_file(target) as first:
        first.write_text("one")
        with whole_file(target) as second:
            second.write_text("two")
        assert first.read_text() == "one"
    assert target.read_text() == "one"


def test_a_writer_in_another_container_is_left_alone(tmp_path):
    # Two containers on one volume may have one host name and the same process numbers: `unshare` makes a new count.
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-pf", "true"], check=False).returncode:
        pytest.skip("no name spaces of processes here")
    script = (
        "import sys\nfrom pathlib import Path\nfrom lln.core.safe_files import whole_file\n"
        "with whole_file(Path('a')) as partial:\n"
        "    partial.write_text('first')\n    print('writing', flush=True)\n    sys.stdin.read()\n"
    )
    words = ["unshare", "--pid", "--fork", sys.executable, "-c", script]
    with subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout.readline() == b"writing\n"
        with whole_file(tmp_path / "a") as partial:
            partial.write_text("second")
        assert (tmp_path / "a").read_text() == "second"
        first.stdin.close()
    assert first.returncode == 0
    assert (tmp_path / "a").read_text() == "first"


@pytest.mark.parametrize("length", [200, 221, 255])
def test_a_name_of_any_length_that_the_file_system_takes(tmp_path, length):
    target = tmp_path / ("a" * length)
    killed_while_writing(target)
    with whole_file(target) as partial:
        partial.write_text("whole")
    assert names(tmp_path) == [target.name]


def test_a_name_that_is_too_long_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="File name too long"), whole_file(tmp_path / ("a" * 256)):
        pass


def test_a_file_of_another_user_in_a_sticky_folder_is_refused_before_the_work():
    if os.geteuid() != 0:
        pytest.skip("only root can make files of other users")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "a").touch()
        os.chown(folder / "a", 12345, 12345)
        folder.chmod(0o1777)
        process = os.fork()
        if process == 0:
            os.setuid(54321)
            try:
                with whole_file(folder / "a"):
                    os._exit(2)
            except InputError as error:
                os._exit(0 if "belongs to another user" in str(error) else 3)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


def test_a_folder_takes_the_place_of_a_folder_where_names_cannot_be_swapped(tmp_path, monkeypatch):
    monkeypatch.setattr("lln.core.safe_files._exchanged", lambda *_: False)
    test_a_folder_takes_the_place_of_a_folder(tmp_path)


def test_a_folder_that_was_set_aside_comes_back(tmp_path):
    target = tmp_path / "a.zarr"
    killed_while_writing(target, folder=True)
    (left,) = tmp_path.iterdir()
    (left / "a.zarr").rename(left / ".old")
    (left / ".old" / "one").touch()

    def look():
        with whole_file(target):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        look()
    assert list(target.iterdir()) == [target / "one"]


def test_a_write_that_fails_says_where(tmp_path):
    def full():
        with whole_file(tmp_path / "a.txt"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match=r"No space left on device: '.*a\.txt'"):
        full()
