"""Which layers have experts, as users write it."""

from __future__ import annotations

import pytest

from primus_core.experiment import Value
from primus_core.parameters.layerpattern import layers_with_experts


@pytest.mark.parametrize(
    ("frequency", "pattern"),
    [
        (None, "1111"),
        (1, "1111"),
        (2, "1010"),
        (3, "1001"),
        (9, "1000"),
        ("2", "1010"),
        ([0, 1, 1, 0], "0110"),
        ("[0,1,1,0]", "0110"),
        ("([0]*3+[1]*5)", "00011111"),
        ("([0]+[1])*4", "01010101"),
        ("[0]+([1]*2+[0])*2", "0110110"),
        ("(([0]+[1])*2+[1])*2", "0101101011"),
        ("3*[0]+[1]", "0001"),
        ("[0]*2+[1]*2+[0]*0", "0011"),
    ],
)
def test_every_spelling_has_its_layers(frequency: Value, pattern: str) -> None:
    """A number, a list, and sums of repeated lists, which may be repeated themselves."""
    assert layers_with_experts(frequency, len(pattern)) == [one == "1" for one in pattern]


@pytest.mark.parametrize(
    ("frequency", "told"),
    [
        (0, "neither a number of layers nor a list of 0 and 1"),
        (-1, "neither a number"),
        (0.5, "neither a number"),
        ([0, 1, 2, 1], "neither a number"),
        ("[0,2,1,1]", "neither a number"),
        ("[0]+[1]*2", "it describes 3 layers, and the model has 4"),
        ([1] * 5, "it describes 5 layers, and the model has 4"),
        ("([0]*3+[1]*58)*", "cannot be read"),
        ("", "cannot be read"),
        ("every second", "cannot be read"),
        ("__import__('os').abort()", "no sum of repeated lists"),
        ("[0]*[1]", "no sum of repeated lists"),
        ("2*2*[1]+1", "no sum of repeated lists"),
        ("[[0],1,1,1]", "a list in a list"),
        ("[1]*100*100*100*100", "more than 10000 layers"),
        ("[1]*99999999999999999999", "more than 10000 layers"),
        ("(" * 5000 + "[1]" + ")" * 5000, "characters"),
        ("(" * 900 + "[1]" + ")" * 900, "cannot be read"),
        ("+".join(["[1]"] * 2400), "cannot be read"),
    ],
)
def test_what_is_no_pattern_is_refused(frequency: Value, told: str) -> None:
    """Whatever stands there, nothing of it is run, and it is told in words."""
    with pytest.raises(ValueError, match=told):
        layers_with_experts(frequency, 4)
