"""Files that are whole or not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from primus_core.files import write_atomic


def test_a_file_is_replaced_and_its_folder_made(tmp_path: Path) -> None:
    """The new text takes the place of the old, and nothing else is in the folder."""
    path = tmp_path / "a" / "b.json"
    write_atomic(path, "old")
    write_atomic(str(path), "nëw")
    assert path.read_text(encoding="utf-8") == "nëw"
    assert list(path.parent.iterdir()) == [path]


FULL = """
import resource, sys
from primus_core.files import write_atomic
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_atomic("report.json", "x" * 2000)
except OSError:
    sys.exit(7)
"""


def test_a_disk_without_room_keeps_the_old_text_and_no_part_of_the_new(tmp_path: Path) -> None:
    """A write that fails half way raises and leaves the folder as it was."""
    (tmp_path / "report.json").write_text("old")
    assert subprocess.run([sys.executable, "-c", FULL], cwd=tmp_path, timeout=55).returncode == 7
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("report.json", "old")]
