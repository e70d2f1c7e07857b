"""Process sets, which are hvd's."""

from __future__ import annotations

from hvd.process_sets import (ProcessSet, add_process_set, get_process_set_ids_and_ranks, global_process_set,
                              process_set_ids, remove_process_set)

__all__ = ["ProcessSet", "add_process_set", "get_process_set_ids_and_ranks", "global_process_set", "process_set_ids",
           "remove_process_set"]
