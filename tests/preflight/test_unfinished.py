"""A node that began and never came to its end is not good, whatever it had seen by then."""

from __future__ import annotations

from pathlib import Path

import pytest

from primus_core.cli.main import main
from tests.preflight.sick import install, node, preflight, run_folder


@pytest.mark.parametrize(
    ("how", "words", "told"),
    [
        ("kills the agent", (), "was killed by SIGKILL"),
        ("hangs", ("--timeout=2",), "the agent had to be ended"),
    ],
)
def test_a_node_whose_agent_dies_or_is_given_up(tmp_path: Path, how: str, words: tuple[str, ...], told: str) -> None:
    """It is an error with what is known of its end, also when the results are judged again."""
    done = preflight(tmp_path / "out", "--host", *words, path=[install(tmp_path / "site")], SICK=how)
    folder = run_folder(tmp_path / "out")
    assert done.code == 1, done.text
    assert not node(tmp_path / "out").complete
    assert "did not come to its end" in done.text
    assert "and told nothing more" in done.text
    assert told in done.text
    assert (folder / "failing_nodes.txt").read_text() == f"{node(tmp_path / 'out').host}\n"
    assert (folder / "passing_nodes.txt").read_text() == ""
    assert main(["preflight", "report", str(folder), "--output", str(tmp_path / "again")]) == 1
