"""The garbage collector looks only at what is young while the process starts, and at what is new afterwards."""

from __future__ import annotations

import gc

from bot.process import gc_tuning


def test_what_exists_is_out_of_the_collectors_sight() -> None:
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        gc_tuning.hold()
        assert gc.get_threshold() == gc_tuning.AT_START
        gc_tuning.settle()
        assert gc.get_freeze_count() > frozen
        assert gc.get_threshold() == gc_tuning.THRESHOLDS
    finally:
        if frozen == 0:  # else what the tests' own start has frozen would be looked at again
            gc.unfreeze()
        gc.set_threshold(*thresholds)
