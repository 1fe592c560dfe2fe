"""Files that torch really writes, read without it: shapes, types, objects; and what is wrong with damaged ones."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from attrs import evolve

from primus_core.checkpoints.contents import Stored
from primus_core.checkpoints.dcp import METADATA, is_dcp, read_metadata, read_object
from primus_core.checkpoints.faults import Forbidden, Unknown, Unreadable
from primus_core.checkpoints.pickles import Allowed
from primus_core.checkpoints.sidecar import Sidecar, as_mapping, read_sidecar, to_text
from primus_core.checkpoints.steps import list_steps, numbered_folders
from primus_core.checkpoints.torchfile import TORCH_NAMES, Tensor, read_torch_file, tensors_of
from tests.malice import Evil

ALLOWED = Allowed(names=TORCH_NAMES | {"argparse.Namespace"})

WRITE = """
import argparse, sys, torch, torch.distributed.checkpoint as dcp
folder = sys.argv[1]
model = {
    "wide.weight": torch.zeros(7, 3, dtype=torch.bfloat16),
    "part": torch.arange(20.0).reshape(4, 5)[1:3],
    "number": torch.tensor(3, dtype=torch.int64),
    "parameter": torch.nn.Parameter(torch.ones(2, 2)),
    "eight": torch.zeros(4, dtype=torch.float8_e4m3fn),
}
linear = torch.nn.Linear(3, 2).state_dict()
common = {"args": argparse.Namespace(lr=0.1, dtype=torch.float32), "iteration": 7, "sizes": torch.Size([1, 2])}
torch.save({**common, "model": model, "linear": linear}, folder + "/whole.pt")
torch.save({"model": model}, folder + "/old.pt", _use_new_zipfile_serialization=False)
dcp.save({"model": model, "step": 7, "common": common}, checkpoint_id=folder + "/step-7", no_dist=True)
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process with torch has saved."""
    folder = tmp_path_factory.mktemp("torch")
    subprocess.run([sys.executable, "-W", "ignore", "-c", WRITE, str(folder)], check=True)
    return folder


SHAPES = {
    "wide.weight": Tensor((7, 3), "bfloat16"),
    "part": Tensor((2, 5), "float32"),
    "number": Tensor((), "int64"),
    "parameter": Tensor((2, 2), "float32"),
    "eight": Tensor((4,), "float8_e4m3fn"),
}


def test_a_file_of_torch_save(written: Path) -> None:
    """Every tensor has its shape and type, every other value what it was, and no number of a tensor is read."""
    with (written / "whole.pt").open("rb") as file:
        content = read_torch_file(file, ALLOWED)
    found = tensors_of(content["model"])
    untold = {"eight"} if not found["eight"].dtype else set()  # torch keeps new types as bytes of no type
    assert {name: found[name] for name in SHAPES if name not in untold} == {
        name: SHAPES[name] for name in SHAPES if name not in untold
    }
    assert found["eight"].shape == (4,)
    assert tensors_of(content["linear"]) == {"weight": Tensor((2, 3), "float32"), "bias": Tensor((2,), "float32")}
    assert content["args"].attributes()["lr"] == 0.1
    assert content["iteration"] == 7


def test_a_folder_of_distributed_checkpoint(written: Path) -> None:
    """Global shapes and types by name, and the objects beside them, from the metadata alone."""
    assert is_dcp(written / "step-7")
    metadata = read_metadata(written / "step-7")
    assert {name.removeprefix("model."): tensor for name, tensor in metadata.tensors.items()} == SHAPES
    assert read_object(written / "step-7", metadata.objects["step"], ALLOWED) == 7
    arguments = read_object(written / "step-7", metadata.objects["common.args"], ALLOWED)
    assert arguments.attributes()["lr"] == 0.1
    assert metadata.files == {path.name: path.stat().st_size for path in (written / "step-7").glob("*.distcp")}


def test_an_object_that_names_more_than_is_allowed(written: Path) -> None:
    """The list is the caller's: a class that it lacks is refused by name."""
    metadata = read_metadata(written / "step-7")
    with pytest.raises(Forbidden, match=r"argparse\.Namespace"):
        read_object(written / "step-7", metadata.objects["common.args"], Allowed(names=TORCH_NAMES))


def test_the_format_before_torch_1_6(written: Path) -> None:
    """It is told apart from damage."""
    with (written / "old.pt").open("rb") as file, pytest.raises(Unknown, match=r"1\.6"):
        read_torch_file(file, ALLOWED)


def test_malicious_metadata_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The metadata of a folder is refused with the name that it would have called."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / METADATA).write_bytes(pickle.dumps({"state_dict_metadata": Evil(Path("canary"))}, 2))
    with pytest.raises(Forbidden, match="system"):
        read_metadata(tmp_path)
    assert not Path("canary").exists()


def test_a_malicious_file_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is the content of an archive."""
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile("evil.pt", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Evil(Path("canary")), 2))
    with open("evil.pt", "rb") as file, pytest.raises(Forbidden, match="system"):
        read_torch_file(file, ALLOWED)
    assert not Path("canary").exists()


def test_a_zip_that_unpacks_to_gigabytes(tmp_path: Path) -> None:
    """No more is unpacked than the limit."""
    with zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(64 << 20))
    assert (tmp_path / "bomb.pt").stat().st_size < 1 << 20
    with (tmp_path / "bomb.pt").open("rb") as file, pytest.raises(Unknown, match="MiB"):
        read_torch_file(file, ALLOWED)


def test_damaged_folders(written: Path, tmp_path: Path) -> None:
    """Cut, emptied, a folder in its place, without the right to read, too large: always the one error."""
    whole = (written / "step-7" / METADATA).read_bytes()
    for content in (b"", whole[:-30], whole[: len(whole) // 2], b"\0" * 100, pickle.dumps(["no", "metadata"])):
        (tmp_path / METADATA).write_bytes(content)
        with pytest.raises(Unreadable):
            read_metadata(tmp_path)
    (tmp_path / METADATA).write_bytes(bytes(20 << 20))
    with pytest.raises(Unknown, match="MiB"):
        read_metadata(tmp_path)
    (tmp_path / METADATA).unlink()
    (tmp_path / METADATA).mkdir()
    with pytest.raises(Unreadable, match="regular"):
        read_metadata(tmp_path)


def test_an_object_stays_in_its_folder(written: Path, tmp_path: Path) -> None:
    """Metadata that points to a file elsewhere, or to gigabytes, does not get it read."""
    shutil.copytree(written / "step-7", tmp_path / "step")
    data = (tmp_path / "step" / METADATA).read_bytes()
    name = next((tmp_path / "step").glob("*.distcp")).name
    (tmp_path / "step" / METADATA).write_bytes(
        data.replace(name.encode(), b"../aa/secret"[: len(name)].ljust(len(name), b"x"))
    )
    metadata = read_metadata(tmp_path / "step")
    with pytest.raises(Unreadable, match="not an object of this folder"):
        read_object(tmp_path / "step", metadata.objects["step"], ALLOWED)


SIDECAR = Sidecar(
    step=7,
    time=1.5,
    run_id="20260101-a",
    library="megatron-core",
    library_version="0.19.2",
    format="torch_dist",
    world_size=8,
    layout={"tensor": 2, "data": 4},
    distributed_optimizer=None,
    tokens=1 << 40,
    facts={"num_layers": 2},
    files={".metadata": Stored(5, "ab"), "__0_0.distcp": Stored(1 << 40, "cd")},
    tensors={"w": Tensor((2, 3), "bfloat16"), "scalar": Tensor((), "float32")},
)


def test_a_sidecar_comes_back(tmp_path: Path) -> None:
    """What is written is read; there is none in a folder without, nor in one of a later layout."""
    path = tmp_path / "primus.json"
    assert read_sidecar(path) is None
    path.write_text(to_text(as_mapping(SIDECAR)))
    assert read_sidecar(path) == SIDECAR
    path.write_text(to_text({**as_mapping(SIDECAR), "schema": 1, "files": [".metadata"]}))  # as it was before
    assert read_sidecar(path) == evolve(SIDECAR, files={".metadata": Stored(0)})
    path.write_text(to_text({**as_mapping(SIDECAR), "schema": 99}))
    assert read_sidecar(path) is None


@pytest.mark.parametrize("damage", ['{"schema": 1}', "{", "[" * 100_000, '{"schema": 1, "layout": 5}', "\xff"])
def test_a_damaged_sidecar(damage: str, tmp_path: Path) -> None:
    """It is an error of its own kind, whatever the damage."""
    (tmp_path / "primus.json").write_text(damage, encoding="latin-1")
    with pytest.raises(Unreadable):
        read_sidecar(tmp_path / "primus.json")


def test_steps_of_a_folder(tmp_path: Path) -> None:
    """Folders in the order of their numbers, whatever their zeros; neither files nor other names."""
    for name in ("step-10", "step-9", "step-x", "iter_0000001", "step-"):
        (tmp_path / name).mkdir()
    (tmp_path / "step-11").touch()
    assert numbered_folders(tmp_path, "step-") == {9: tmp_path / "step-9", 10: tmp_path / "step-10"}
    assert numbered_folders(tmp_path / "absent", "step-") == {}
    assert list_steps([20, 10]) == "10, 20"
    assert list_steps(range(100)) == "0, 1, 2, 3, 4, 5, ... 94, 95, 96, 97, 98, 99 (100 in all)"
