#!/usr/bin/python3
"""Measures hvd.progress with all its arguments, with two, and as a loop's iterator. Run it with hvdrun.

hvdrun -np 1 progress_cost.py [thousands of calls, 500]; prints the nanoseconds of processor time for each call."""

from __future__ import annotations

import sys
import time

import hvd


def main() -> None:
    count = 1000 * int(sys.argv[1] if len(sys.argv) > 1 else 500)
    hvd.init()
    steps = range(count)

    def empty() -> None:
        for _ in steps:
            pass

    def all_arguments() -> None:
        for step in steps:
            hvd.progress(step=step, steps=count, samples=64, loss=0.5, epoch=0, epochs=1)

    def two_arguments() -> None:
        for step in steps:
            hvd.progress(step=step, samples=64)

    def around_a_loop() -> None:
        for _ in hvd.progress(steps, samples=64):
            pass

    def cost(body: object) -> float:
        begin = time.thread_time_ns()
        body()  # type: ignore[operator]
        return (time.thread_time_ns() - begin) / count

    floor = cost(empty)
    for body in (all_arguments, two_arguments, around_a_loop):
        print(f"{body.__name__}: {cost(body) - floor:.0f} ns a call")
    hvd.shutdown()


if __name__ == "__main__":
    main()
