"""Things by name: those that ship with lln, those registered at run time, and those of other installed packages.

A package outside adds one by an entry point in the registry's group, for example

    [project.entry-points."lln.models"]
    ridgelet = "my_package:RidgeletNetwork"

or, in a running program, by ``registry.register("ridgelet", RidgeletNetwork)``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from lln.core.errors import InputError, did_you_mean

T = TypeVar("T")


class Registry(Generic[T]):
    """Items of one kind by name.

    Args:
        kind: what an item is called in messages, such as "network".
        group: entry point group that other packages add to, such as "lln.models".
        builtin: items that ship with lln; a text "module:attribute" is imported on first use.
    """

    def __init__(self, kind: str, group: str, builtin: Mapping[str, T | str]) -> None:
        self.kind, self.group = kind, group
        self._items: dict[str, T | str] = dict(builtin)
        self._found: dict[str, EntryPoint] | None = None

    def register(self, name: str, item: T) -> T:
        """Add an item, or replace one that was registered before under the same name.

        Returns:
            The item, so that a class can be registered where it is defined.
        """
        if not isinstance(name, str) or not name.isprintable() or not name.strip():
            raise InputError(f"a {self.kind} is registered under a name, got {name!r}")
        self._items[name] = item
        return item

    def get(self, name: str) -> T:
        """The item of that name; InputError with the known names if there is none."""
        item: Any = self._items.get(name)
        if item is None:
            item = self._entry_points().get(name)
        if item is None:
            hint = did_you_mean(str(name), self.names())
            raise InputError(f"no {self.kind} is called {name!r}{hint}", topic="unknown-name")
        if isinstance(item, EntryPoint):
            return self._load(item)
        if isinstance(item, str):
            module, _, attribute = item.partition(":")
            item = getattr(importlib.import_module(module), attribute)
        self._items[name] = item
        return item  # type: ignore[no-any-return]

    def names(self) -> list[str]:
        """Every name, those that ship with lln first."""
        return list(dict.fromkeys([*self._items, *self._entry_points()]))

    def __contains__(self, name: object) -> bool:
        return name in self._items or name in self._entry_points()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def _entry_points(self) -> dict[str, EntryPoint]:
        if self._found is None:
            self._found = {point.name: point for point in entry_points(group=self.group)}
        return self._found

    def _load(self, point: EntryPoint) -> T:
        try:
            return point.load()  # type: ignore[no-any-return]
        except Exception as error:  # whatever a foreign package raises while it is imported
            raise InputError(
                f"the {self.kind} {point.name!r} of the package that provides {point.value!r} cannot be loaded "
                f"({type(error).__name__}: {error}); repair or uninstall that package"
            ) from error
