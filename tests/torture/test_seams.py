"""The functions of the product that the tables of crash windows and of sabotage name still exist."""

from __future__ import annotations

import inspect

import pytest

from tests.torture.sabotage import SABOTAGE
from tests.torture.seams import resolve
from tests.torture.windows import ELSEWHERE, IN_CLUSTER, WINDOWS

ALL = (*WINDOWS, *ELSEWHERE, *IN_CLUSTER)
SEAMS = {window.seam for window in ALL} | {target for targets in SABOTAGE.values() for target in targets}


@pytest.mark.parametrize("seam", sorted(SEAMS))
def test_a_seam_is_a_function_of_the_product(seam: str) -> None:
    assert inspect.isfunction(resolve(seam))


def test_windows_have_names_of_their_own() -> None:
    assert len({window.name for window in ALL}) == len(ALL)
