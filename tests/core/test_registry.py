from importlib.metadata import EntryPoint

import pytest

from lln.core.errors import InputError
from lln.core.registry import Registry


def test_builtin_items_are_imported_on_first_use():
    registry = Registry("thing", "lln.none", {"join": "posixpath:join"})
    assert registry.get("join")("a", "b") == "a/b"
    assert registry.names() == ["join"]


def test_registered_items_are_found_and_replaced():
    registry = Registry("thing", "lln.none", {})
    assert registry.register("one", 1) == 1
    registry.register("one", 2)
    assert registry.get("one") == 2
    assert "one" in registry
    assert len(registry) == 1


def test_an_unknown_name_is_refused_with_the_known_ones():
    registry = Registry("thing", "lln.none", {"one": "posixpath:join"})
    with pytest.raises(InputError, match=r"no thing is called 'onne'.*one"):
        registry.get("onne")


def test_entry_points_of_other_packages_are_found(monkeypatch):
    points = [EntryPoint("there", "posixpath:join", "lln.some"), EntryPoint("broken", "no_such_module:x", "lln.some")]
    monkeypatch.setattr("lln.core.registry.entry_points", lambda group: points if group == "lln.some" else [])
    registry = Registry("thing", "lln.some", {})
    assert registry.names() == ["there", "broken"]
    assert registry.get("there")("a", "b") == "a/b"
    with pytest.raises(InputError, match=r"'broken'.*cannot be loaded"):
        registry.get("broken")


@pytest.mark.parametrize("name", ["", " ", "a\x1b", 3])
def test_a_name_is_printable_text(name):
    with pytest.raises(InputError, match="registered under a name"):
        Registry("thing", "lln.none", {}).register(name, 1)
