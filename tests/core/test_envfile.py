"""Files of environment variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from primus_core.errors import ConfigError
from primus_core.planning.envfile import parse_env_file, read_env_file

SHELL = {"HOME": "/home/me", "EMPTY": ""}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=plain", "plain"),
        ("A = spaces around ", "spaces around"),
        ("export A=1", "1"),
        ("A=", ""),
        ("A=''", ""),
        ('A="two words"', "two words"),
        ("A='two words'", "two words"),
        ("A=a=b", "a=b"),
        ("A=in 'the' middle", "in 'the' middle"),
        ("A=text # a comment", "text"),
        ("A=text# none", "text# none"),
        ("A=#all", ""),
        ("A='kept # here' # comment", "kept # here"),
        ('A="kept # here"\t# comment', "kept # here"),
        (r'A="a\tb\nc\\d\"e"', 'a\tb\nc\\d"e'),
        (r"A='a\tb'", r"a\tb"),
        (r"A='Let\'s go'", "Let's go"),
        (r"A=a\tb", r"a\tb"),
        (r'A="\x"', r"\x"),
        ("A=$HOME ${HOME} $(id) `id` ; | * &&", "$HOME ${HOME} $(id) `id` ; | * &&"),
        ('A="$HOME"', "$HOME"),
        ("A=größe 漢字", "größe 漢字"),
        ("A=1\r", "1"),
        ("A=1\nA=2", "2"),
        ("# A=1\n\n  A=2", "2"),
    ],
)
def test_a_line(line: str, value: str) -> None:
    """Quotes and comments are as Docker documents them for env files; a $ is a $, and no shell reads the value."""
    assert parse_env_file(line, "x.env", SHELL).values == {"A": value}


def test_a_name_alone_is_taken_from_the_shell() -> None:
    """As Docker has it: what the shell does not have is not set."""
    assert parse_env_file("HOME\nABSENT\nEMPTY\n", "x.env", SHELL).values == {"HOME": "/home/me", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("A=1\nno name=2", "x.env:2", "no KEY=VALUE line"),
        ("=1", "x.env:1", "no KEY=VALUE line"),
        ("1A=1", "x.env:1", "no KEY=VALUE line"),
        ("A: 1", "x.env:1", "no KEY=VALUE line"),
        ("\nA='open", "x.env:2", "a quote ' is not closed"),
        ('A="open\nB=close"', "x.env:1", 'a quote " is not closed'),
        ("A='1'2", "x.env:1", "text after the closing quote"),
        ("A=a\0b", "x.env:1", "a line holds a NUL, which no variable can"),
    ],
)
def test_a_wrong_line_is_told_with_its_place(text: str, where: str, what: str) -> None:
    """File and line are named, and the value, which may be a secret, is not."""
    with pytest.raises(ConfigError) as caught:
        parse_env_file(text, "x.env", SHELL)
    assert (caught.value.where, caught.value.what) == (where, what)


def test_what_looks_like_a_reference_is_known() -> None:
    """Other tools would put a variable in: such lines are told, unless single quotes say that the $ is meant."""
    text = "A=${HOME}/x\nB='$HOME'\nC=\"$X\"\nD=costs 5$\n"
    assert parse_env_file(text, "x.env", SHELL).references == ("x.env:1", "x.env:3")


def test_a_file_as_editors_write_it(tmp_path: Path) -> None:
    """A byte order mark is no part of the first name."""
    file = tmp_path / "x.env"
    file.write_bytes(b"\xef\xbb\xbfA=1\r\nB=2\r\n")
    assert read_env_file(str(file), {}).values == {"A": "1", "B": "2"}


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """An absent file, and bytes that are no text, are errors of the configuration."""
    with pytest.raises(ConfigError, match="cannot be read"):
        read_env_file(str(tmp_path / "absent.env"), {})
    (tmp_path / "latin.env").write_bytes(b"A=1\nB=\xe9\n")
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        read_env_file(str(tmp_path / "latin.env"), {})
    assert caught.value.where.endswith("latin.env:2")
