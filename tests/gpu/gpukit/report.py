"""Checks hvdrun's report of a job that kept the GPU busy (programs/busy.py)."""

from __future__ import annotations

import json
from pathlib import Path

from gpukit.results import record

LEAST_BUSY_PERCENT = 50  # not more: the GPU is idle while torch starts
PEAK_BYTES = (4.2e9, 6.5e9)  # 4 GiB, and the memory of CUDA itself
SENSORS = {"peak_celsius": (20, 100), "mean_watts": (30, 1200), "peak_watts": (30, 1500)}  # plausible values of a large GPU that computes


def check_report(file: Path) -> None:
    report = json.loads(file.read_text())
    gpus = report["hosts"][0]["gpus"]
    record("report: one GPU", len(gpus) == 1, gpus)
    if len(gpus) == 1:
        busy, peak = gpus[0]["busy_percent"] or 0, gpus[0]["peak_memory_bytes"] or 0
        record("report: the GPU was busy", busy > LEAST_BUSY_PERCENT, busy, f"> {LEAST_BUSY_PERCENT} %")
        record("report: peak of the GPU's memory", PEAK_BYTES[0] < peak < PEAK_BYTES[1], peak, PEAK_BYTES)
        for field, (least, most) in SENSORS.items():
            value = gpus[0][field]
            record(f"report: {field}", value is not None and least < value < most, value, [least, most])
        record("report: throttling", None, gpus[0]["throttling"])
    rank = report["ranks"][0]
    record("report: the rank's GPU", rank["gpu"] is not None, rank["gpu"])
    memory = rank["peak_gpu_memory_bytes"]
    record("report: the rank's own GPU memory", memory is not None and PEAK_BYTES[0] < memory < PEAK_BYTES[1], memory, PEAK_BYTES)
