"""YAML files become nodes with places, or one clear error."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import pytest

from primus_core.errors import ConfigError, ExitCode
from primus_core.experiment import Value
from primus_core.yamlfile import Fields, Items, Scalar, load, loads, parse_scalar


def refused(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as raised:
        loads(text, "f.yaml")
    assert raised.value.exit_code == ExitCode.USAGE
    assert raised.value.remedy
    return raised.value


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1e-5", 1e-5),
        ("1.0e-5", 1e-5),
        ("1E+2", 100.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("-17", -17),
        ("+3", 3),
        ("0123", 123),
        ("0o17", 15),
        ("0x1F", 31),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("Off", "Off"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("TRUE", True),
        ("tRUE", "tRUE"),
        ("~", None),
        ("null", None),
        ("NULL", None),
        ("", None),
        ("12:00:00", "12:00:00"),
        ("2024-01-01", "2024-01-01"),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("1e999", "1e999"),
        ("9" * 301, "9" * 301),
        ("=", "="),
        ("'0123'", "0123"),
        ('"a\\tb"', "a\tb"),
        ("!!str 5", "5"),
        ("!!float 5", 5),
        ("[1, no, {a: 0x10}]", [1, "no", {"a": 16}]),
    ],
)
def test_scalars_follow_yaml_1_2(written: str, value: Value) -> None:
    """Scalars are those of YAML 1.2's core schema."""
    got = loads(f"key: {written}", "f.yaml").entries["key"].value
    assert got == value
    assert type(got) is type(value)


def test_nan_is_a_float() -> None:
    """``.nan`` is a float that is not a number."""
    value = loads("key: .NaN", "f.yaml").value["key"]
    assert isinstance(value, float)
    assert math.isnan(value)


@pytest.mark.parametrize(
    ("written", "text"),
    [("0123", "0123"), ("1e5", "1e5"), ("True", "True"), ("~", "~"), ("no", None), ("'0123'", None), ('"1e5"', None)],
)
def test_what_was_written_is_kept(written: str, text: str | None) -> None:
    """A scalar without quotes keeps its text, unless that is its value."""
    assert loads(f"key: {written}", "f.yaml").entries["key"].text == text


def test_texts_of_lists_and_maps() -> None:
    """Lists and maps have the texts of what they hold."""
    fields = loads("a: [0123, x]\nb: {c: 1e5, d: x}\ne: [x]", "f.yaml")
    assert [node.text for node in fields.entries.values()] == [["0123", None], {"c": "1e5"}, None]


def test_every_node_knows_its_place() -> None:
    """Entries of a map are where their key starts, elements of a list where they start themselves."""
    fields = loads("a: 1\nb:\n  c:\n    - 5\n    -  x\n", "f.yaml")
    b = fields.entries["b"]
    assert isinstance(b, Fields)
    c = b.entries["c"]
    assert isinstance(c, Items)
    places = [(node.origin.line, node.origin.column) for node in (fields, fields.entries["a"], b, c, *c.nodes)]
    assert places == [(1, 1), (1, 1), (2, 1), (3, 3), (4, 7), (5, 8)]
    assert str(c.origin) == "f.yaml:3"


def test_keys_are_text() -> None:
    """Keys that look like numbers or null are the text that was written."""
    assert list(loads("1e3: a\n0x10: b\n~: c\n'q r': d", "f.yaml").entries) == ["1e3", "0x10", "~", "q r"]


def test_aliases_and_merge_keys() -> None:
    """Anchors, aliases and ``<<`` work; an explicit key beats a merged one, the first merged map the later ones."""
    text = "a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc: {<<: [*a, *b], x: 0}\nd: *a\n"
    fields = loads(text, "f.yaml")
    assert fields.value["c"] == {"x": 0, "y": 2, "z": 4}
    assert fields.value["d"] == {"x": 1, "y": 2}
    assert fields.entries["d"].origin.line == 4


def test_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    """A byte order mark and CR LF change nothing."""
    (tmp_path / "f.yaml").write_bytes(b"\xef\xbb\xbfa: 1\r\nb: x\r\n")
    assert load(str(tmp_path / "f.yaml")).value == {"a": 1, "b": "x"}


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3", "`a` is written twice; it is set on line 1 and again on line 3"),
        ("m:\n  a: 1\n  'a': 3\n", "f.yaml:3", "`a` is written twice"),
        ("- 1\n- 2\n", "f.yaml:1", "the top level must be a map; it is a list"),
        ("just text", "f.yaml:1", "it is a single value"),
        ("", "f.yaml", "the file is empty"),
        ("# nothing\n---\n...\n", "f.yaml", "the file is empty"),
        ("a: &a [1, *a]\n", "f.yaml:1", "`*a` contains itself"),
        ("a: &a {b: {c: *a}}\n", "f.yaml:1", "`*a` contains itself"),
        ("a: *b\n", "f.yaml:1", "`*b` has no anchor"),
        ("a: !!python/object/apply:os.system [ls]\n", "f.yaml:1", "`!!python/object/apply:os.system` is not supported"),
        ("a:\n  b: !mine {}\n", "f.yaml:2", "the tag `!mine` is not supported"),
        ("a: !!binary aGk=\n", "f.yaml:1", "the tag `!!binary` is not supported"),
        ("a: !!int x\n", "f.yaml:1", "'x' is no int"),
        ("a:\n\tb: 1\n", "f.yaml:2", "cannot start any token"),
        ("a: [1, 2\nb: 3\n", "f.yaml:2", "begun on line 1"),
        ("a: b: c\n", "f.yaml:1", "a: b: c"),
        ("a: 'x\n", "f.yaml:2", "unexpected end"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2", "a second document starts"),
        ("? [a]\n: 1\n", "f.yaml:1", "a key must be a word"),
        ("? \n: 1\n", "f.yaml:1", "a key must be a word"),
        ("a: 1\n<<: 5\n", "f.yaml:2", "`<<` merges maps only"),
        ("a: 1\nb: \0\n", "f.yaml:2", "does not allow: '\\x00'"),
        ("a: \x1b[0m\n", "f.yaml:1", "does not allow: '\\x1b'"),
        ('a: "\\0"\n', "f.yaml:1", "an escape that is no character"),
        ("a: " + "[" * 33 + "]" * 33, "f.yaml:1", "nested deeper than 32 levels"),
        ("a: " + "{a: " * 900 + "}" * 900, "f.yaml:1", "nested deeper than 32 levels"),
        ("a: " + "[" * 500_000, "f.yaml:1", "not valid YAML"),
    ],
)
def test_what_is_refused(text: str, where: str, words: str) -> None:
    """What is ambiguous, unsafe or no YAML is an error that names file, line and remedy."""
    error = refused(text)
    assert error.where == where
    assert words in f"{error.what}; {error.why}"


def test_an_alias_bomb_is_refused_at_once() -> None:
    """Aliases that expand to more values than a configuration has are refused without expanding them."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    started = time.process_time()
    error = refused("\n".join(lines))
    assert "more than 50000 values" in error.what
    assert error.where == "f.yaml:5"
    assert time.process_time() - started < 5


def test_aliases_cannot_pile_up() -> None:
    """Nesting counts through aliases: no structure is deeper than one that is written out."""
    lines = [f"a0: &a0 {'[' * 20}{']' * 20}", *(f"a{i}: &a{i} [{'[' * 9}*a{i - 1}{']' * 9}]" for i in range(1, 40))]
    error = refused("\n".join(lines))
    assert (error.what, error.where) == ("nested deeper than 32 levels", "f.yaml:3")


def test_aliases_of_a_long_text_are_a_bomb() -> None:
    """A text counts by its length, each time that it is meant; once it may be long."""
    text = f"a: &a '{'x' * 500_000}'\n"
    assert len(str(loads(text, "f.yaml").value["a"])) == 500_000
    assert "more than 50000 values" in refused(f"{text}b: [{', '.join(['*a'] * 10)}]\n").what


def test_a_tab_is_named() -> None:
    """A tab as indentation is answered with what to do about it."""
    assert "the line starts with a tab" in refused("a:\n\tb: 1\n").remedy


@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        (b"", "", "the file is empty"),
        (b" \n\n", "", "the file is empty"),
        (b"a: 1\nb: \xff\n", ":2", "the file is not UTF-8 text"),
        ("a: 1\n".encode("utf-16"), ":1", "the file is not UTF-8 text"),
        (b"a: " + b"x" * (1 << 20), "", "the file is too large"),
    ],
)
def test_files_that_are_no_text(tmp_path: Path, content: bytes, where: str, what: str) -> None:
    """An empty, huge or non-UTF-8 file is an error that names it."""
    path = tmp_path / "f.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=what) as raised:
        load(str(path))
    assert raised.value.where == f"{path}{where}"


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    """A missing file, a folder, a pipe and a device are errors, and nothing waits for a pipe."""
    os.mkfifo(tmp_path / "pipe")
    whys = {
        "missing": "the file does not exist",
        ".": "a folder",
        "pipe": "pipe or device",
        "/dev/null": "pipe or device",
    }
    for name, why in whys.items():
        with pytest.raises(ConfigError) as raised:
            load(str(tmp_path / name))
        assert why in f"{raised.value.what} {raised.value.why}"
    with pytest.raises(ConfigError, match="cannot be read"):
        load("a\0b")


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("1e-5", 1e-5),
        ("fifty", "fifty"),
        ("tRue", True),
        ("", None),
        ("null", None),
        ("[1, 2]", [1, 2]),
        ("{a: 1}", {"a": 1}),
        ("'50'", "50"),
        ("a: b", "a: b"),
        ("x #y", "x #y"),
        ("@x", "@x"),
        ("*.txt", "*.txt"),
        ("!x", "!x"),
        ("/data/a b", "/data/a b"),
    ],
)
def test_words_of_the_command_line(word: str, value: Value) -> None:
    """A word is a scalar, or a list or map in brackets; everything else is text as it stands."""
    assert parse_scalar(word) == value


@pytest.mark.parametrize("word", ["[1, 2", "{a: 1", "'x", "[1] x", "a\udcff", "a\0"])
def test_broken_words_of_the_command_line(word: str) -> None:
    """An unclosed bracket or quote and bytes that are not UTF-8 are errors of the command line."""
    with pytest.raises(ConfigError) as raised:
        parse_scalar(word)
    assert raised.value.where == "command line"


def test_nodes_of_a_file_have_its_layer() -> None:
    """The layer that is given is that of every origin."""
    node = loads("a: [1]", "f.yaml", layer="model").entries["a"]
    assert isinstance(node, Items)
    assert isinstance(node.nodes[0], Scalar)
    assert {node.origin.layer, node.nodes[0].origin.layer} == {"model"}
