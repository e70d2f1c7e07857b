"""The callbacks of hvd.tensorflow.keras.callbacks, under the name of horovod.keras."""

from __future__ import annotations

from hvd.tensorflow.keras.callbacks import (BestModelCheckpoint, BroadcastGlobalVariablesCallback,
                                            LearningRateScheduleCallback, LearningRateWarmupCallback,
                                            MetricAverageCallback, ProgressCallback)

__all__ = ["BestModelCheckpoint", "BroadcastGlobalVariablesCallback", "LearningRateScheduleCallback",
           "LearningRateWarmupCallback", "MetricAverageCallback", "ProgressCallback"]
