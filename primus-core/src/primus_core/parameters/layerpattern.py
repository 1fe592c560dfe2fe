"""Which layers of a model have experts, from the portable parameter that says it."""

from __future__ import annotations

import ast

from primus_core.experiment import Value

_LONGEST = 10_000
"""Layers of a pattern, and characters of its text; more is no model, but an accident."""
_EXAMPLE = "([0]*3+[1]*58)"
REMEDY = f"write every which layer has experts, or a 0 or 1 for each: {_EXAMPLE}"


def layers_with_experts(frequency: Value, layers: int) -> list[bool]:
    """For each layer of a mixture of experts, whether it has experts.

    Args:
        frequency: value of ``moe_layer_freq``: every so manieth layer beginning with the first; or a 0 or 1 for each
            layer, as a list, or in text as a sum of repeated lists such as ``([0]+[1]*2)*8``. None: every layer.
        layers: of the model.

    Raises:
        ValueError: it is none of these, or for another number of layers.
    """
    pattern = _read(frequency) if isinstance(frequency, str) else 1 if frequency is None else frequency
    if isinstance(pattern, int) and pattern > 0:
        return [index % pattern == 0 for index in range(layers)]
    if not isinstance(pattern, list) or any(one not in (0, 1) for one in pattern):
        raise ValueError("it is neither a number of layers nor a list of 0 and 1")
    if len(pattern) != layers:
        raise ValueError(f"it describes {len(pattern)} layers, and the model has {layers}")
    return [bool(one) for one in pattern]


def _read(text: str) -> int | list[int]:
    if len(text) > _LONGEST:
        raise ValueError(f"it has more than {_LONGEST} characters")
    try:
        return _evaluated(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"it cannot be read: it is no sum of repeated lists, such as {_EXAMPLE}") from None


def _evaluated(node: ast.expr) -> int | list[int]:
    """Numbers, lists of them, sums and products, and nothing else of Python."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.List):
        return _numbers([_evaluated(member) for member in node.elts])
    if isinstance(node, ast.BinOp):
        left, right = _evaluated(node.left), _evaluated(node.right)
        if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, list):
            return left + right
        if isinstance(node.op, ast.Mult):
            return _repeated(left, right) if isinstance(left, list) else _repeated(right, left)
    raise ValueError(f"it is no sum of repeated lists, such as {_EXAMPLE}")


def _numbers(members: list[int | list[int]]) -> list[int]:
    found = [member for member in members if isinstance(member, int)]
    if len(found) < len(members):
        raise ValueError("it has a list in a list")
    return found


def _repeated(pattern: int | list[int], times: int | list[int]) -> list[int]:
    if not isinstance(pattern, list) or not isinstance(times, int):
        raise ValueError(f"it is no sum of repeated lists, such as {_EXAMPLE}")
    if len(pattern) * times > _LONGEST:
        raise ValueError(f"it describes more than {_LONGEST} layers")
    return pattern * times
