"""hvd.rates: scaled learning rates, warm-up and parts of a batch."""

from __future__ import annotations

import hvd
from _expect import raises


def case_learning_rates_are_scaled() -> None:
    assert hvd.scale_rate(0.5) == 0.5 * hvd.size()
    assert hvd.scale_rate(0.5, 4) == 2.0
    assert hvd.scale_rate(0.5, 4, "sqrt") == 1.0
    assert abs(hvd.scale_rate(0.5, 8, "two-thirds") - 2.0) < 1e-12
    assert hvd.scale_rate(0.5, 8, "none") == 0.5
    with raises(hvd.errors.InvalidArgumentError, "cubic"):
        hvd.scale_rate(0.5, 8, "cubic")
    with raises(hvd.errors.InvalidArgumentError, "size"):
        hvd.scale_rate(0.5, 0)


def case_warm_up_raises_the_rate() -> None:
    assert [hvd.warmup(1.0, 3.0, step, 4) for step in (0, 1, 2, 4, 9)] == [1.0, 1.5, 2.0, 3.0, 3.0]
    assert hvd.warmup(1.0, 3.0, 0, 0) == 3.0
    with raises(hvd.errors.InvalidArgumentError, "step"):
        hvd.warmup(1.0, 3.0, -1, 4)


def case_parts_of_a_batch_add_up() -> None:
    assert sum(hvd.local_batch(64, rank, 3) for rank in range(3)) == 64
    assert hvd.local_batch(64) == hvd.local_batch(64, hvd.rank(), hvd.size())
    with raises(ValueError, "both"):
        hvd.local_batch(64, rank=0)
    with raises(hvd.errors.InvalidArgumentError, "batch"):
        hvd.local_batch(0)
