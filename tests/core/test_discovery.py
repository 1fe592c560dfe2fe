"""Plugins as data: found by metadata, selected by name, imported last."""

from __future__ import annotations

import importlib.metadata
import sys
import time
import zipfile
from pathlib import Path

import pytest

from primus_core import discovery
from primus_core.cli.main import main
from primus_core.contract import CONTRACT
from primus_core.discovery import metadata
from primus_core.errors import ConfigError, DependencyError
from tests.distributions import Install


def found(group: discovery.Group, name: str) -> discovery.PluginInfo:
    return next(info for info in discovery.scan().of(group) if info.name == name)


def test_the_plugins_of_this_repository_are_found() -> None:
    """Each distribution's plugins are listed with distribution and version."""
    plugins = discovery.scan()
    rows = {(info.group, info.name, info.distribution) for info in plugins}
    assert {
        ("primus.backends", "megatron", "primus-backend-megatron"),
        ("primus.backends", "torchtitan", "primus-backend-torchtitan"),
        ("primus.launchers", "single", "primus-core"),
        ("primus.launchers", "direct", "primus-launchers"),
        ("primus.preflight", "host", "primus-preflight"),
    } <= rows
    assert discovery.distributions(plugins)["primus-core"] == discovery.installed_version("primus-core")


def test_a_plugin_is_described_without_being_imported(install: Install) -> None:
    """A scan reports a healthy plugin whose import would end the process."""
    install("p-bomb", "[primus.backends]\nbomb = p_bomb.host\n", {"p_bomb/host.py": "raise SystemExit(7)"})
    info = found("primus.backends", "bomb")
    assert (info.state, info.problem, info.kind) == ("ok", "", "back end")
    assert (info.distribution, info.version, info.value) == ("p-bomb", "1.2", "p_bomb.host")
    assert not any(name.startswith("p_bomb") for name in sys.modules)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("bad = p_gone.host", "module p_gone.host is not there"),
        ("bad = p_part.gone", "module p_part.gone is not there"),
        ("bad = p_part.host.deeper", "module p_part.host.deeper is not there"),
        ("bad = p part!", "'p part!' is not `module` or `module:attribute`"),
        ("bad =", "'' is not `module` or `module:attribute`"),
        ("bad", "'' is not `module` or `module:attribute`"),
    ],
)
def test_a_broken_plugin_is_listed_and_hurts_no_other(install: Install, line: str, problem: str) -> None:
    """A plugin that cannot work is found broken, with the reason, beside a healthy one of the same package."""
    install("p-part", f"[primus.launchers]\n{line}\ngood = p_part.host\n", {"p_part/host.py": "HERE = 1"})
    bad = found("primus.launchers", "bad")
    assert bad.state == "broken"
    assert problem in bad.problem
    with pytest.raises(DependencyError, match="cannot be used") as caught:
        discovery.load(bad)
    assert problem[1:] in caught.value.why
    assert "pip install --force-reinstall p-part" in caught.value.remedy
    good = discovery.load(discovery.select(discovery.scan(), "primus.launchers", "good"))
    assert getattr(good, "HERE", None) == 1


def test_two_owners_of_a_name_are_both_listed_and_neither_is_chosen(install: Install) -> None:
    """A name that two distributions claim is an error that names both."""
    for name in ("p-one", "p-two"):
        module = name.replace("-", "_")
        install(name, f"[primus.launchers]\nours = {module}\n", {f"{module}.py": ""})
    plugins = discovery.scan()
    states = [(info.distribution, info.state) for info in plugins if info.name == "ours"]
    assert states == [("p-one", "duplicate"), ("p-two", "duplicate")]
    assert "p-two 1.2" in found("primus.launchers", "ours").problem
    with pytest.raises(DependencyError, match=r"p-one 1\.2 and p-two 1\.2"):
        discovery.select(plugins, "primus.launchers", "ours")
    with pytest.raises(DependencyError, match="cannot be used"):
        discovery.load(found("primus.launchers", "ours"))


def test_the_first_of_two_versions_of_a_distribution_counts(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A distribution that is shadowed on sys.path is not a second owner of its names."""
    install("p-twice", "[primus.launchers]\ntwice = p_twice\n", {"p_twice.py": ""})
    older = tmp_path / "older" / "P_Twice-0.9.dist-info"
    older.mkdir(parents=True)
    (older / "METADATA").write_text("Metadata-Version: 2.1\nName: P.Twice\nVersion: 0.9\n")
    (older / "entry_points.txt").write_text("[primus.launchers]\ntwice = p_twice\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(older.parent)])
    assert [info.version for info in discovery.scan() if info.name == "twice"] == ["1.2"]


def test_metadata_without_a_name_or_in_another_encoding_stops_nothing(install: Install, site: Path) -> None:
    """Damaged metadata of one distribution leaves the others usable."""
    install("p-damaged", "[primus.launchers]\ndamaged = p_damaged\n", {"p_damaged.py": ""})
    (site / "p_damaged-1.2.dist-info" / "METADATA").unlink()
    latin = site / "latin-1.dist-info"
    latin.mkdir()
    (latin / "entry_points.txt").write_bytes(b"[primus.launchers]\n\xe9 = x\n")
    info = found("primus.launchers", "damaged")
    assert (info.distribution, info.version) == ("(unnamed distribution)", "?")
    assert found("primus.launchers", "single").state == "ok"


def test_a_command_of_a_package_that_is_missing(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the package is absent, or older than the command, its name is told, and so is how to get it."""
    with pytest.raises(ConfigError) as caught:
        discovery.select(discovery.Plugins(), "primus.commands", "benchmark")
    assert "pip install primus-preflight" in caught.value.remedy
    install("primus-preflight", "[primus.preflight]\nold = old_check\n", version="0.0.1")  # hides the newer one
    assert main(["direct", "--", "benchmark", "gemm"]) == 1
    assert "the command 'benchmark' is not installed" in capsys.readouterr().err
    assert main(["direct", "--", "benchmark", "--help"]) == 0
    assert "pip install --upgrade primus-preflight" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("group", "name", "remedy"),
    [
        ("primus.launchers", "singel", "'single'"),
        ("primus.backends", "megatrn", "'megatron'"),
        ("primus.backends", "zzz", "known ones: primus-backend-megatron, primus-backend-torchtitan"),
    ],
)
def test_an_unknown_name_is_answered_with_what_there_is(group: discovery.Group, name: str, remedy: str) -> None:
    """A name that nobody has lists the installed ones and says which package, or which name, is meant."""
    with pytest.raises(ConfigError) as caught:
        discovery.select(discovery.scan(), group, name, where="exp.yaml:7")
    assert repr(name) in caught.value.what
    assert caught.value.where == "exp.yaml:7"
    assert remedy in caught.value.remedy
    installed = {info.name for info in discovery.scan().of(group)}
    assert all(have in caught.value.why for have in installed)
    assert caught.value.exit_code == 2


def test_a_known_name_is_answered_with_its_package() -> None:
    """Where the package is not installed yet, the remedy is to install it."""
    with pytest.raises(ConfigError) as caught:
        discovery.select(discovery.Plugins(), "primus.backends", "torchtitan")
    assert caught.value.remedy == "Install it: `pip install primus-backend-torchtitan`."
    assert caught.value.why == "Installed: none."


@pytest.mark.parametrize(
    ("source", "last_line", "line"),
    [
        ("x = 1\nimport not_there_at_all", "No module named 'not_there_at_all'", 2),
        ("\n\nraise ValueError('bad day')", "ValueError: bad day", 3),
        ("def f(:\n", "SyntaxError", 1),
        ("raise SystemExit(3)", "SystemExit: 3", 1),
    ],
)
def test_a_failing_import_is_told_by_its_last_line(install: Install, source: str, last_line: str, line: int) -> None:
    """A selected plugin that does not import is a dependency error with place, last line and remedy."""
    install("p-fails", "[primus.backends]\nfails = p_fails.host\n", {"p_fails/host.py": source})
    with pytest.raises(DependencyError, match="'fails' of p-fails") as caught:
        discovery.load(found("primus.backends", "fails"))
    assert last_line in caught.value.why
    assert caught.value.where.endswith(f"p_fails/host.py:{line}")
    assert "p-fails" in caught.value.remedy
    assert caught.value.exit_code == 1


def test_an_attribute_that_is_missing_is_a_failing_import(install: Install) -> None:
    """An entry point may name an attribute; one that is not there is told like a failing import."""
    install("p-attr", "[primus.commands]\na = p_attr:have\nb = p_attr:lack\n", {"p_attr.py": "have = 5"})
    assert discovery.load(found("primus.commands", "a")) == 5
    with pytest.raises(DependencyError) as caught:
        discovery.load(found("primus.commands", "b"))
    assert "lack" in caught.value.why


@pytest.mark.parametrize(("declared", "upgrade"), [(CONTRACT - 1, "p-contract"), (CONTRACT + 1, "primus-core")])
def test_a_plugin_of_another_contract_is_refused(install: Install, declared: int, upgrade: str) -> None:
    """The error names both contract numbers and upgrades the older side."""
    install("p-contract", "[primus.backends]\nc = p_contract\n", {"p_contract.py": f"CONTRACT = {declared}"})
    with pytest.raises(DependencyError, match="another contract") as caught:
        discovery.load(found("primus.backends", "c"))
    assert f"CONTRACT = {declared}" in caught.value.why
    assert f"has {CONTRACT}" in caught.value.why
    assert f"pip install --upgrade {upgrade}" in caught.value.remedy


def test_presets_come_from_the_back_end_first(install: Install, site: Path) -> None:
    """Preset folders are those of the framework and then core's, and no package is imported for them."""
    install(
        "p-presets",
        "[primus.presets]\nmine = p_presets.data.presets\n",
        {"p_presets/__init__.py": "raise SystemExit", "p_presets/data/presets/tiny.yaml": ""},
    )
    own, core = discovery.preset_dirs(discovery.scan(), "mine")
    assert own == str(site / "p_presets/data/presets")
    assert core.endswith("primus_core/presets")
    assert discovery.preset_dirs(discovery.scan(), "unheard-of") == [core]


def test_versions_of_libraries_are_read_from_metadata() -> None:
    """The version of an installed distribution is known, that of another is None."""
    assert discovery.installed_version("pluggy")
    assert discovery.installed_version("no-such-distribution-here") is None


def test_a_scan_is_quick() -> None:
    """Reading the metadata of this environment takes less than 30 ms of CPU, the best of five times."""
    times = []
    for _ in range(5):
        start = time.process_time()
        discovery.scan()
        times.append(time.process_time() - start)
    assert min(times) < 0.03


def test_distributions_are_those_that_the_standard_library_finds(install: Install) -> None:
    """Read without `importlib.metadata`: the same folders in the same order, and the same one of each name."""
    install("P.dotted_Name", "[primus.presets]\ndotted = p_dotted\n", {"p_dotted/__init__.py": ""})
    ours = [found.read_text("METADATA") for found in metadata.described()]
    theirs = [found.read_text("METADATA") for found in importlib.metadata.distributions()]
    assert ours == theirs
    for name in ("p-dotted.name", "pyyaml", "PLUGGY", "primus_core", "pytest"):
        assert discovery.installed_version(name) == importlib.metadata.version(name)
    assert discovery.installed_version("no-such-thing") is None


def test_a_distribution_in_an_archive_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry of sys.path that is no folder is left to the standard library."""
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("p_zipped-3.1.dist-info/METADATA", "Metadata-Version: 2.1\nName: p-zipped\nVersion: 3.1\n")
        archive.writestr("p_zipped-3.1.dist-info/entry_points.txt", "[primus.presets]\nzipped = json\n")
    monkeypatch.syspath_prepend(str(tmp_path / "all.zip"))
    assert discovery.installed_version("p-zipped") == "3.1"
    assert found("primus.presets", "zipped").version == "3.1"


def test_a_distribution_that_comes_while_we_run_is_seen(install: Install) -> None:
    """What was read of a folder of packages counts until the folder changes."""
    install("p-early", "[primus.presets]\nearly = json\n", {"p_early/__init__.py": ""})
    assert discovery.installed_version("p-late") is None
    install("p-late", "[primus.presets]\nlate = json\n", {"p_late/__init__.py": ""})
    assert discovery.installed_version("p-late") == "1.2"
