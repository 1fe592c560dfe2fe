"""The hosts of a run over ssh, as people write them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from primus_core.cli.main import main
from primus_core.errors import ConfigError, ErrorGroup
from primus_core.planning.hosts import Host, hosts_of_file, hosts_of_words

EXAMPLE = Path(__file__).parents[2] / "examples/llama-tiny.yaml"


@pytest.mark.parametrize("text", ["node1", "me@node1.site", "me@node1:2222", "10.0.0.7", "[fe80::1]:22", "me@[::1]"])
def test_a_host_is_read_and_written_alike(text: str) -> None:
    """User, name and port survive."""
    assert str(Host.of(text, "here")) == text


@pytest.mark.parametrize(
    "text", ["-oProxyCommand=x", "a b", "node1:0", "node1:70000", "me@", "$(id)", "a;b", "::1", "é"]
)
def test_what_is_no_host_is_refused(text: str) -> None:
    """Nothing that ssh or a shell would take for something else gets through."""
    with pytest.raises(ConfigError, match="is no host"):
        Host.of(text, "here")


def test_a_hostfile_has_comments_and_blank_lines(tmp_path: Path) -> None:
    """One host a line."""
    (tmp_path / "hosts").write_text("# all\n\nnode1  # the first\n  me@node2:22\n")
    assert hosts_of_file("hosts", str(tmp_path)) == (Host(name="node1"), Host(name="node2", user="me", port=22))


def test_every_wrong_line_of_a_hostfile_is_named(tmp_path: Path) -> None:
    """A host that is named twice and one that is none, each with its line."""
    (tmp_path / "hosts").write_text("node1\na b\nnode1\n")
    with pytest.raises(ErrorGroup) as caught:
        hosts_of_file("hosts", str(tmp_path))
    assert [error.where for error in caught.value.errors] == ["hosts:2", "hosts:3"]


@pytest.mark.parametrize("text", ["", "# nobody\n\n"])
def test_an_empty_hostfile_is_refused(tmp_path: Path, text: str) -> None:
    """A file without a host starts nothing."""
    (tmp_path / "hosts").write_text(text)
    with pytest.raises(ConfigError, match="names no host"):
        hosts_of_file("hosts", str(tmp_path))


def test_no_host_at_all_is_refused() -> None:
    """``--hosts ''`` names what to write."""
    with pytest.raises(ConfigError, match="no host is named"):
        hosts_of_words([""], "--hosts")


@pytest.mark.parametrize("launcher", [[], ["--launcher", "single"]])
def test_hosts_for_another_launcher_are_refused(tmp_path: Path, launcher: list[str]) -> None:
    """They would be ignored in silence."""
    argv = [sys.executable, "-m", "primus_core.cli.main", "run", EXAMPLE, "--hosts", "a,b", *launcher]
    env = {**os.environ, "PRIMUS_WORKSPACE": str(tmp_path)}
    ended = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "--hosts is for the launcher ssh" in ended.stderr
    assert not list(tmp_path.iterdir())


def test_a_program_is_not_started_over_ssh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--hosts beside --script would be ignored: it is refused."""
    (tmp_path / "one.py").touch()
    assert main(["direct", "--hosts", "a", "--script", str(tmp_path / "one.py")]) == 2
    assert "--script runs on this host" in capsys.readouterr().err


def test_one_rank_is_not_started_on_two_nodes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--single beside NNODES would be a run for each node: it is refused."""
    for name, value in (("NNODES", "2"), ("NODE_RANK", "0"), ("MASTER_ADDR", "node1")):
        monkeypatch.setenv(name, value)
    assert main(["run", str(EXAMPLE), "--single", "--dry-run"]) == 2
    assert "NNODES is 2" in capsys.readouterr().err
