"""hvd.tensorflow.keras.callbacks."""

from __future__ import annotations

from hvd.tensorflow.keras.callbacks import (BestModelCheckpoint, BroadcastGlobalVariablesCallback,
                                            LearningRateScheduleCallback, LearningRateWarmupCallback,
                                            MetricAverageCallback)

__all__ = ["BestModelCheckpoint", "BroadcastGlobalVariablesCallback", "LearningRateScheduleCallback",
           "LearningRateWarmupCallback", "MetricAverageCallback"]
