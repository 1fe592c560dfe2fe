"""Folders of safetensors files, read by their headers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from primus_core.checkpoints.faults import Unreadable
from primus_core.checkpoints.safetensors import INDEX, SINGLE, new_header, read_folder

A, B = np.zeros((2, 3), np.float32), np.ones(4, np.float16)


def refusal(folder: Path) -> str:
    with pytest.raises(Unreadable) as caught:
        read_folder(folder)
    return str(caught.value)


@pytest.mark.parametrize("names", [(SINGLE, SINGLE), ("part-a.safetensors", "part-b.safetensors")])
def test_a_folder_without_an_index_is_read_whatever_its_files_are_called(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    """One file or several, by any names: all tensors with their types and shapes."""
    for name in set(names):
        save_file(
            {key: one for key, one, file in (("a", A, names[0]), ("b", B, names[1])) if file == name}, tmp_path / name
        )
    found = read_folder(tmp_path)
    assert {name: (one.dtype, one.shape, one.file.name) for name, one in found.items()} == {
        "a": ("F32", (2, 3), names[0]),
        "b": ("F16", (4,), names[1]),
    }


def test_our_header_is_one_of_the_format(tmp_path: Path) -> None:
    """A header of ours with numbers behind it is read by the format's own library."""
    header = new_header({"a": ("float32", (2, 3)), "b": ("float16", (4,))})
    (tmp_path / SINGLE).write_bytes(header + A.tobytes() + B.tobytes())
    found = load_file(tmp_path / SINGLE)
    assert (found["a"] == A).all()
    assert (found["b"] == B).all()
    assert len(header) % 8 == 0


def test_files_that_are_missing_are_named(tmp_path: Path) -> None:
    """By the index; without one, by the number of files that is in each name."""
    save_file({"a": A}, tmp_path / "model-00001-of-00003.safetensors")
    assert "2 of 3 files are missing: model-00002-of-00003.safetensors" in refusal(tmp_path)
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"a": "model-00001-of-00003.safetensors", "b": "gone.st"}}))
    assert refusal(tmp_path) == "1 of 2 files are missing: gone.st"


def test_an_index_that_does_not_fit_its_files_is_refused(tmp_path: Path) -> None:
    """A tensor that its file lacks, a file outside of the folder, and what is no index."""
    save_file({"a": A}, tmp_path / SINGLE)
    for content, said in (
        ({"weight_map": {"b": SINGLE}}, "names b, which model.safetensors does not have"),
        ({"weight_map": {"a": f"../{SINGLE}"}}, "names a file outside of the folder"),
        ({}, "has no weight_map"),
        ([], "no JSON object"),
    ):
        (tmp_path / INDEX).write_text(json.dumps(content))
        assert said in refusal(tmp_path)


def test_a_damaged_file_is_told_with_its_sizes(tmp_path: Path) -> None:
    """Cut short in its numbers or its header, or of another format altogether."""
    save_file({"a": A}, tmp_path / SINGLE)
    whole = (tmp_path / SINGLE).read_bytes()
    for content, said in (
        (whole[:-1], f"cut short: {len(whole) - 1} of {len(whole)} bytes"),
        (whole[:20], "no whole header"),
        (b"", "no whole header"),
        (len(b"[1]").to_bytes(8, "little") + b"[1]", "no JSON object"),
        (len(b'{"a": 1}').to_bytes(8, "little") + b'{"a": 1}', "its header is none of safetensors"),
    ):
        (tmp_path / SINGLE).write_bytes(content)
        assert said in refusal(tmp_path)


def test_a_folder_without_such_weights_is_refused(tmp_path: Path) -> None:
    """No folder, a file, an empty folder, one with weights of another format, one tensor twice."""
    assert refusal(tmp_path / "none") == "the folder does not exist"
    assert "no .safetensors file" in refusal(tmp_path)
    (tmp_path / "pytorch_model.bin").touch()
    assert refusal(tmp_path / "pytorch_model.bin") == "it is no folder"
    assert "but pytorch_model.bin" in refusal(tmp_path)
    for name in ("one.safetensors", "two.safetensors"):
        save_file({"a": A}, tmp_path / name)
    assert "a is in one.safetensors and in two.safetensors" in refusal(tmp_path)
