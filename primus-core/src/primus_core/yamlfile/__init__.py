"""YAML files and values with the place of every node: YAML 1.2's scalars, no tags, no surprises."""

from primus_core.yamlfile.compose import load, loads
from primus_core.yamlfile.dump import dump_experiment, written
from primus_core.yamlfile.nodes import Fields, Items, Node, Scalar, Unset
from primus_core.yamlfile.scalars import is_utf8, refuse_unprintable, scalar
from primus_core.yamlfile.words import parse_scalar, parse_text

__all__ = [
    "Fields",
    "Items",
    "Node",
    "Scalar",
    "Unset",
    "dump_experiment",
    "is_utf8",
    "load",
    "loads",
    "parse_scalar",
    "parse_text",
    "refuse_unprintable",
    "scalar",
    "written",
]
