"""hvd.checkpoint: saved states are loaded unchanged on all ranks, and failures are errors on all ranks."""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import torch

import hvd
from _expect import raises
from _folder import barrier, shared_folder
from hvd.checkpoint import KEEP_ALL, Checkpoints

NUMPY_TYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32",
               "float64", "bool", "complex64", "complex128"]
TORCH_TYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
               torch.float32, torch.float64, torch.bool, torch.complex64, torch.complex128]


def saved_and_loaded(state: Any, **options: Any) -> Any:
    with shared_folder() as folder:
        with Checkpoints(folder / "run", **options) as checkpoints:
            checkpoints.save(state, 7, 0.5)
            checkpoints.wait()
            loaded = checkpoints.load()
        assert (loaded.step, loaded.metric) == (7, 0.5) and Path(loaded.path).exists()
    return loaded.state


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("checkpoint-*"))


def case_arrays_of_every_numpy_type_are_loaded_unchanged() -> None:
    state = {kind: (np.arange(6).reshape(2, 3) + 1).astype(kind) for kind in NUMPY_TYPES}
    state |= {"zero-d": np.array(2.5), "empty": np.empty((0, 3), "float32"),
              "strided": np.arange(12).reshape(3, 4)[:, ::2], "big-endian": np.arange(3, dtype=">i4"),
              "texts": np.array(["a", "bc"]), "objects": np.array([None, "x"])}
    for options in ({}, {"sharded": True}):
        loaded = saved_and_loaded(state, **options)
        assert list(loaded) == list(state)
        for name, array in state.items():
            assert loaded[name].dtype == array.dtype, name
            np.testing.assert_array_equal(loaded[name], array, name)
        loaded["float32"] += 1  # checks that the array is writable


def case_tensors_of_every_torch_type_are_loaded_unchanged() -> None:
    state = {str(kind): (torch.arange(6).reshape(2, 3) + 1).to(kind) for kind in TORCH_TYPES}
    state |= {"zero-d": torch.tensor(2.5), "empty": torch.empty(0, 3),
              "transposed": torch.arange(6.0).reshape(2, 3).t(), "conjugate": torch.tensor([1 + 2j]).conj(),
              "sparse": torch.eye(3).to_sparse(),
              "with gradient": torch.ones(2, requires_grad=True), "parameter": torch.nn.Parameter(torch.ones(3))}
    loaded = saved_and_loaded(state)
    for name, tensor in state.items():
        got = loaded[name]
        assert type(got) is type(tensor) and got.dtype == tensor.dtype and got.layout == tensor.layout, name
        assert got.requires_grad == tensor.requires_grad, name
        assert torch.equal(got.to_dense(), tensor.to_dense()) if tensor.is_sparse else torch.equal(got, tensor), name


def case_other_python_values_are_loaded_unchanged() -> None:
    shared = np.arange(3)
    state = {"epoch": 3, "rate": 0.5, "name": "läuft", "none": None, "flags": (True, {1, 2}),
             5: {"nested": [1, {"a": 2.5}]}, "large": 1 << 100, "bytes": b"\0\1", "ordered": OrderedDict(b=1, a=2),
             "one": shared, "the same": shared,
             "a": {"b": np.arange(2)}, "a.b": np.arange(5), "state": {"pickle": np.arange(4)}}
    loaded = saved_and_loaded(state)
    assert loaded["one"] is loaded["the same"] and loaded["one"].tolist() == [0, 1, 2]
    assert (loaded["a"]["b"].size, loaded["a.b"].size, loaded["state"]["pickle"].size) == (2, 5, 4)
    for name in ("epoch", "rate", "name", "none", "flags", 5, "large", "bytes", "ordered"):
        assert loaded[name] == state[name] and type(loaded[name]) is type(state[name]), name
    assert saved_and_loaded("a text") == "a text"
    assert saved_and_loaded(np.arange(3)).tolist() == [0, 1, 2]
    weights = saved_and_loaded([np.ones((2, 3), "float32"), np.zeros(3)])  # like Keras's get_weights()
    assert [array.shape for array in weights] == [(2, 3), (3,)]


def case_all_ranks_load_the_state_of_rank_0() -> None:
    mine = {"weights": np.full(3, float(hvd.rank())), "rank": hvd.rank(), "texts": ["x"] * hvd.rank()}
    loaded = saved_and_loaded(mine)
    assert loaded["weights"].tolist() == [0.0] * 3 and loaded["rank"] == 0 and loaded["texts"] == []
    assert saved_and_loaded(mine | {"weights": np.zeros(3)}, sharded=True)["rank"] == 0


def make_model() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> None:
    inputs = torch.randn(16, 4, generator=torch.Generator().manual_seed(seed))
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()


def case_a_torch_model_and_optimizer_continue_from_a_checkpoint() -> None:
    torch.manual_seed(1)
    model, optimizer = make_model()
    train(model, optimizer, 1)
    state = saved_and_loaded({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3})
    train(model, optimizer, 2)
    torch.manual_seed(2 + hvd.rank())
    other, other_optimizer = make_model()
    other.load_state_dict(state["model"])
    other_optimizer.load_state_dict(state["optimizer"])
    train(other, other_optimizer, 2)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), f"{name} differs from the uninterrupted training"
    assert state["epoch"] == 3


def case_load_into_writes_existing_tensors_in_place() -> None:
    with shared_folder() as folder, Checkpoints(folder) as checkpoints:
        torch.manual_seed(1)
        model, _ = make_model()
        early = hvd.EarlyStopping()
        early.update(0.5)
        checkpoints.save({"model": model.state_dict(), "steps": [1, 2], "early": early.state_dict()}, 1)
        torch.manual_seed(2 + hvd.rank())
        other, _ = make_model()
        strided = {"model": other.state_dict(), "steps": [], "old": 1, "early": None}
        steps = strided["steps"]
        loaded = checkpoints.load(strided)
        assert loaded.state is strided and strided["steps"] is steps and steps == [1, 2] and "old" not in strided
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, other.state_dict()[name]), f"{name} was not loaded in place"
        checkpoints.save({"array": np.arange(6).reshape(2, 3)}, 2)
        whole = np.zeros((2, 6), int)
        assert checkpoints.load({"array": whole[:, ::2]}).step == 2
        assert whole.tolist() == [[0, 0, 1, 0, 2, 0], [3, 0, 4, 0, 5, 0]]


def case_loading_into_a_different_state_is_an_error() -> None:
    with shared_folder() as folder, Checkpoints(folder) as checkpoints:
        checkpoints.save({"weights": np.ones(3)}, 1)
        own = np.zeros(4)
        with raises(hvd.errors.MismatchError, "weights"):
            checkpoints.load({"weights": own})
        with raises(hvd.errors.MismatchError, "more"):
            checkpoints.load({"weights": np.zeros(3), "more": np.zeros(3)})
        frozen = np.zeros(3)
        frozen.flags.writeable = False
        with raises(ValueError, "read-only", "weights"):
            checkpoints.load({"weights": frozen})
        assert not own.any() and checkpoints.load()["weights"].tolist() == [1, 1, 1]


def case_saving_different_states_on_ranks_is_an_error() -> None:
    with shared_folder() as folder, Checkpoints(folder) as checkpoints:
        if hvd.size() > 1:
            with raises(hvd.errors.MismatchError):
                checkpoints.save({"weights": np.ones(3 + hvd.rank())}, 1)
            with raises(hvd.errors.MismatchError):
                checkpoints.save({"weights": np.ones(3)}, hvd.rank())
        assert checkpoints.load() is None


def case_a_value_that_cannot_be_pickled_is_an_error_on_all_ranks() -> None:
    for sharded in (False, True):
        for culprit in {0, hvd.size() - 1}:
            with shared_folder() as folder, Checkpoints(folder, sharded=sharded) as checkpoints:
                kind = TypeError if hvd.rank() == culprit else hvd.errors.InvalidArgumentError
                with raises(kind):
                    checkpoints.save({"lock": threading.Lock() if hvd.rank() == culprit else None}, 1)
                with raises(kind):
                    checkpoints.load({"lock": threading.Lock() if hvd.rank() == culprit else None})
                checkpoints.save({"lock": None}, 2)
                assert checkpoints.load().step == 2, "the next save failed"


def case_the_newest_and_the_best_checkpoints_are_kept() -> None:
    with shared_folder() as folder:
        with Checkpoints(folder, keep_last=2, best="min") as checkpoints:
            assert checkpoints.find() is None and checkpoints.load() is None
            for step, metric in ((1, 0.75), (2, 0.25), (3, 0.5), (4, 1.0)):
                checkpoints.save({"step": step}, step, metric)
            checkpoints.wait()
            assert (checkpoints.load()["step"], checkpoints.load(which="best")["step"]) == (4, 2)
            found = checkpoints.find("best")
            assert (found.step, found.metric) == (2, 0.25)
            assert [item.name for item in found.items] == ["state.pickle"] and found.items[0].type == "bytes"
        assert len(files(folder)) == 3
        with Checkpoints(folder, read_only=True) as checkpoints:
            assert checkpoints.load().step == 4
            with raises(hvd.Error):
                checkpoints.save({}, 5)
        with raises(ValueError, "best"):
            Checkpoints(folder, best="smallest")
        with raises(ValueError, "keep_last"):
            Checkpoints(folder, keep_last=0)


def case_changes_after_save_are_not_in_the_checkpoint() -> None:
    with shared_folder() as folder, Checkpoints(folder, keep_last=KEEP_ALL) as checkpoints:
        weights = np.zeros(1_000_000)
        for step in range(3):
            weights[:] = step
            checkpoints.save({"weights": weights}, step)
            weights[:] = -1
        checkpoints.wait()
        assert len(files(folder)) == 3
        assert (checkpoints.load()["weights"] == 2).all()


def case_load_skips_a_damaged_checkpoint() -> None:
    with shared_folder() as folder:
        with Checkpoints(folder) as checkpoints:
            checkpoints.save({"weights": np.arange(1000)}, 1)
            checkpoints.save({"weights": np.zeros(1000, int)}, 2)
        if hvd.rank() == 0:
            newest = folder / files(folder)[-1]
            data = bytearray(newest.read_bytes())
            data[5000] ^= 1
            newest.write_bytes(data)
        barrier("a checkpoint is damaged")
        with Checkpoints(folder) as checkpoints:
            loaded = checkpoints.load()
            assert loaded.step == 1 and loaded["weights"].tolist() == list(range(1000))


def case_a_checkpoint_of_the_c_interface_can_be_loaded() -> None:
    """A program in C++ writes items without the pickled structure of Python."""
    with shared_folder() as folder, Checkpoints(folder) as checkpoints:
        values, text, shape = (ctypes.c_float * 6)(*range(6)), b"random state", (ctypes.c_int64 * 2)(2, 3)
        item = hvd.checkpoint._Item
        items = (item * 2)(item(b"weights", 7, 2, shape, ctypes.addressof(values), 24),
                           item(b"random", 64, 0, None, ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p), len(text)))
        hvd._library.check(hvd._library.lib.hvd_checkpoints_save(checkpoints._handle, items, 2, 1, None))
        state = checkpoints.load().state
        assert state["random"] == text and state["weights"].tolist() == [[0, 1, 2], [3, 4, 5]]
        own = {"weights": np.zeros((2, 3), "float32"), "random": b""}
        checkpoints.load(own)
        assert own["weights"].sum() == 15 and own["random"] == text


def case_a_closed_folder_cannot_be_used_but_opened_again() -> None:
    with shared_folder() as folder:
        first = Checkpoints(folder)
        first.save({}, 1)
        first.wait()
        first.close()
        first.close()
        with raises(ValueError, "closed"):
            first.load()
        second = Checkpoints(folder)
        del second
        with Checkpoints(folder) as third:
            assert third.load().step == 1
