"""Finding presets by name, and reading them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from primus_core.errors import ConfigError
from primus_core.parameters import nearest
from primus_core.records import frozen
from primus_core.resolve.reading import Chain, File, Reader
from primus_core.resolve.trees import Tree, parameters
from primus_core.yamlfile import load

Kind = Literal["modules", "models"]
"""What a preset is for; also the name of the folder that may hold such presets."""


@frozen(kw_only=True)
class PresetPath:
    """Where the presets of one module are searched."""

    reader: Reader
    experiment: File
    folders: Sequence[File]
    """The strongest first; the experiment's own folder comes before."""

    def read(self, kind: Kind, name: str, place: str) -> Tree:
        """Parameters of a preset and of all that it extends.

        Args:
            place: where the experiment names it, for errors.

        Raises:
            ConfigError: there is no such preset, or it cannot be read.
        """
        layer: Literal["preset", "model"] = "preset" if kind == "modules" else "model"
        errors = self.reader.errors
        chain = Chain(
            reader=self.reader,
            convert=lambda fields: parameters(fields, None, errors),
            find_base=lambda file, base, at: _beside(file, base) or self._find(kind, base, at, hidden_by=file),
            base_layer=layer,
        )
        return chain.read(self._find(kind, name, place), layer)

    def _find(self, kind: Kind, name: str, place: str, hidden_by: File | None = None) -> File:
        """The strongest preset of a name; for one that extends its own name, the next one, which it hides."""
        files = (_inside(folder, name) for folder in self._places(kind))
        found = filter(self._is_preset, files)
        for file in _behind(hidden_by, found) if hidden_by else found:
            return file
        raise self._missing(kind, name, place)

    def _is_preset(self, file: File) -> bool:
        return os.path.exists(file.path) and not self._is_experiment(file)

    def _places(self, kind: Kind) -> Iterator[File]:
        for folder in (self.experiment.sibling(""), *self.folders):
            yield folder
            yield _inside(folder, kind)

    def _is_experiment(self, file: File) -> bool:
        """An experiment often has its model's name, and lies where its presets are searched first."""
        beside = os.path.dirname(file.path) == os.path.dirname(self.experiment.path)
        return beside and (file.identity == self.experiment.identity or "modules" in load(file.path).entries)

    def _missing(self, kind: Kind, name: str, place: str) -> ConfigError:
        places = [folder for folder in self._places(kind) if os.path.isdir(folder.path)]
        names = sorted({found for folder in places for found in os.listdir(folder.path) if self._offers(folder, found)})
        meant = nearest(name, names)
        named = [file for file in (_inside(folder, name) for folder in places) if os.path.exists(file.path)]
        passed = [f"{file.name} is an experiment" for file in named if self._is_experiment(file)]
        return ConfigError(
            f"there is no preset `{name}`",
            where=place,
            why="\n".join([*passed, "looked in:", *(folder.name for folder in places)]),
            remedy=f"did you mean `{meant}`?" if meant else "name one of: " + ", ".join(names),
        )

    def _offers(self, folder: File, name: str) -> bool:
        """Whether a file of a folder is a preset that can be read."""
        try:
            return name.endswith(".yaml") and self._is_preset(_inside(folder, name))
        except ConfigError:
            return False


def _inside(folder: File, name: str) -> File:
    return File(path=os.path.join(folder.path, name), name=os.path.normpath(os.path.join(folder.name, name)))


def _behind(file: File, files: Iterable[File]) -> Iterator[File]:
    """Those after a file; all of them where it is not among them."""
    before = list(files)
    same = [one.identity for one in before]
    yield from before[same.index(file.identity) + 1 :] if file.identity in same else before


def _beside(file: File, name: str) -> File | None:
    """The file of a name in the folder of another one, unless it is that one."""
    found = file.sibling(name)
    return found if os.path.isfile(found.path) and found.identity != file.identity else None
