"""Runs collectives in TensorFlow: at once in eager mode, as operations in a graph.

Without an operation compiled against TensorFlow, a graph can only call Python. A Python function that waits would hold
a thread of TensorFlow's pool, and ranks that reach their collectives in different orders could fill the pool with such
waits. So a call is three operations, none of which holds a thread of the pool while the ranks work:

    submit   (Python) passes all collectives of the call to libhvd and returns a number
    wait     (TensorFlow's own) ends when the collectives are done. In a tf.function it takes the number from a queue; a
             thread of this module waits for the collectives and then writes to the queue. That thread cannot reach
             the queues of a Session, so there the number is an element of a tf.data.Dataset, which threads of tf.data
             make
    finish   (Python) returns the results, or raises the error. An error of Python becomes one of few classes of
             tf.errors. FailedPreconditionError is not among them, so an operation of TensorFlow's raises that

tf.function keeps operations with side effects in program order. These three are exempt from that, except for the queue.
So a collective waits only for its inputs, and for earlier calls with its name, because a name can be in flight once.
Arrays are TensorFlow's own memory on the host; tensors on a GPU are copied there.
"""

from __future__ import annotations

import itertools
import os
import queue
import sys
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Optional, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from .. import _collectives, errors, job
from .._arguments import guarded
from .._collectives import start_all, wait_for_all
from ._exceptions import also_tensorflows, is_precondition

if TYPE_CHECKING:
    from typing_extensions import TypeAlias

Array: TypeAlias = npt.NDArray[Any]

Function = TypeVar("Function", bound=Callable[..., Any])


def as_written(function: Function) -> Function:
    """Decorates the functions of the API: tf.function then does not rewrite their source when it traces them.

    Errors leave the function as exceptions of _exceptions. It names its wrong arguments.
    """
    named = guarded(function, f"hvd.tensorflow.{function.__name__}")
    return tf.autograph.experimental.do_not_convert(also_tensorflows()(named))


class Pending(Protocol):
    """A submitted collective, such as a Handle."""

    def wait(self) -> list[Array]: ...


@dataclass(frozen=True)
class Request:
    """One collective: its name, its tensors, the specs of its results, and the function that submits it."""

    name: Optional[str]
    inputs: Sequence[tf.Tensor]
    outputs: Sequence[tf.TensorSpec]
    submit: Callable[[list[Array]], Pending]


def of_gradients(request: Request) -> Request:
    """Returns the request for gradients, see _collectives.of_gradients()."""
    return replace(request, submit=_collectives.of_gradients()(request.submit))


def run(requests: Sequence[Request]) -> list[list[tf.Tensor]]:
    """Submits all requests, waits for all, and returns the outputs of each.

    Errors: those of _exceptions; in a graph, TensorFlow's exceptions with the same text.
    """
    if not requests:
        return []
    if tf.executing_eagerly():
        with also_tensorflows():
            handles = start_all([partial(_submitted, request) for request in requests])
            return [[tf.convert_to_tensor(array) for array in arrays] for arrays in wait_for_all(handles)]
    return _in_graph(requests)


def _submitted(request: Request) -> Any:
    return request.submit([np.asarray(tensor) for tensor in request.inputs])


def in_function() -> bool:
    """Returns whether a tf.function is being traced. False in eager mode, and for a graph for a Session."""
    return not tf.executing_eagerly() and tf.compat.v1.executing_eagerly_outside_functions()


def refuse_xla() -> None:
    """Raises UnsupportedError if the current graph is made for XLA, which cannot compile calls of Python."""
    if not tf.executing_eagerly() and control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
        raise errors.UnsupportedError(
            "hvd: XLA cannot compile a collective: take away tf.function(jit_compile=True); with Keras, "
            "model.compile(..., jit_compile=False), or give model.fit() a callback of hvd, which sees to it")


def _in_graph(requests: Sequence[Request]) -> list[list[tf.Tensor]]:
    refuse_xla()
    inputs = [tensor for request in requests for tensor in request.inputs]
    specs = [spec for request in requests for spec in request.outputs]
    site = _Site(requests)
    with tf.device("/CPU:0"):
        flat = site.operations(inputs, [spec.dtype for spec in specs])
    for tensor, spec in zip(flat, specs):
        tensor.set_shape(spec.shape)
    tensors = iter(flat)
    return [list(itertools.islice(tensors, len(request.outputs))) for request in requests]


@dataclass
class _Run:
    """A call of a site that is in flight."""

    handles: list[Pending] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)
    arrays: list[Array] = field(default_factory=list)
    failure: Optional[BaseException] = None


class _Site:
    """A place in a graph where collectives are called. The graph keeps it alive."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests
        self._runs: dict[int, _Run] = {}
        self._ended: Optional[_Ended] = None
        self._types: list[Any] = []  # of the results

    def operations(self, inputs: list[tf.Tensor], types: list[tf.DType]) -> list[tf.Tensor]:
        if in_function():
            self._ended = _queue_of(self._requests[0].name)
        # Operations on the queue are in program order.
        with tf.control_dependencies([] if self._ended is None else [self._ended.numbers.size()]):
            number = _unordered(tf.numpy_function(self._submit, inputs, tf.int64))
        number.set_shape(())
        with tf.control_dependencies([number]):
            done = self._in_data(number) if self._ended is None else self._ended.numbers.dequeue()
        self._types = [kind.as_numpy_dtype for kind in types]
        *results, failure = tf.numpy_function(self._finish, [number, done], [*types, tf.string])
        _unordered(failure)
        failure.set_shape(())
        with tf.control_dependencies([_raised(failure)]):
            return [tf.identity(result) for result in results]

    def _in_data(self, number: tf.Tensor) -> tf.Tensor:
        """Returns a tensor that has the number as its value as soon as its run is done. For a Session."""
        options = tf.data.Options()
        options.autotune.enabled = False
        options.experimental_optimization.apply_default_optimizations = False
        options.threading.private_threadpool_size = 1  # where Python waits

        def wait(own: np.int64) -> np.int64:
            self._runs[int(own)].done.wait()
            return own

        data = tf.data.Dataset.from_tensors(number).map(lambda own: tf.numpy_function(wait, [own], tf.int64))
        return data.with_options(options).get_single_element()

    def _submit(self, *arrays: Any) -> np.int64:
        own = iter(arrays)
        run = _Run()
        for request in self._requests:  # all of them also after a failure, as the other ranks wait for each
            inputs = [np.asarray(array) for array in itertools.islice(own, len(request.inputs))]
            try:
                run.handles.append(request.submit(inputs))
            except Exception as failure:  # for the thread that finishes
                run.failure = run.failure or failure
        number = next(_numbers)
        self._runs[number] = run
        _waiters.run(lambda: self._wait(run, number))
        return np.int64(number)

    def _wait(self, run: _Run, number: int) -> None:
        try:
            run.arrays = [array for arrays in wait_for_all(run.handles) for array in arrays]
        except BaseException as failure:  # for the thread that finishes
            run.failure = run.failure or failure
        run.done.set()
        if self._ended is not None:
            self._ended.add(number)

    def _finish(self, number: np.int64, _done: np.int64) -> list[Array]:
        """Returns the results and an empty text. For a FailedPreconditionError the text is its own."""
        run = self._runs.pop(int(number))
        # The run is done, unless an earlier run was abandoned for another operation's error: then `_done` was the
        # number of that one.
        run.done.wait()
        if run.failure is None:
            return [*run.arrays, np.array(b"", object)]
        if not is_precondition(run.failure):
            raise run.failure
        text = f"{type(run.failure).__name__}: {run.failure}"
        return [*(np.zeros(0, kind) for kind in self._types), np.array(text.encode(), object)]


_numbers = itertools.count(1)


class _Ended:
    """The numbers of runs that are done, in a queue of TensorFlow that the sites of one name share."""

    def __init__(self) -> None:
        with tf.init_scope(), tf.device("/CPU:0"):
            self.numbers = tf.queue.FIFOQueue(1024, [tf.int64], [()])

    def add(self, number: int) -> None:
        """Adds a number. Ends the process if TensorFlow cannot take it.

        Without it the graph waits for ever. If the queue were closed the step would end with OutOfRangeError, and Keras
        takes that for the end of the data.
        """
        try:
            with tf.device("/CPU:0"):
                self.numbers.enqueue(tf.constant(number, tf.int64))
        except BaseException as failure:
            if sys.is_finalizing():
                return
            text = f"hvd: TensorFlow could not take the result of a collective: {failure!r}"
            job.report_failure(text)
            sys.stderr.write(text + "\n")
            sys.stderr.flush()
            os._exit(1)


_ended: weakref.WeakValueDictionary[str, _Ended] = weakref.WeakValueDictionary()  # by name; the sites keep them alive


def _queue_of(name: Optional[str]) -> _Ended:
    """Returns the queue that all sites of this name share."""
    ended = _ended.get(name or "")
    if ended is None:
        _ended[name or ""] = ended = _Ended()
    return ended


def _unordered(tensor: tf.Tensor) -> tf.Tensor:
    """Takes the tensor's operation out of the program order of a tf.function, which still runs it."""
    manager = tensor.graph.experimental_acd_manager
    if manager is not None:
        manager.run_independently(tensor.op)
    return tensor


def _raised(text: tf.Tensor) -> tf.Tensor:
    """Returns a tensor that depends on an operation which raises FailedPreconditionError unless the text is empty.

    The operation that raises reads a variable that does not exist, and has the text as its name. It is the only one of
    TensorFlow's that raises this class with a text from a tensor.
    """
    def missing(text: tf.Tensor) -> tf.Tensor:
        with tf.device("/CPU:0"):
            return tf.raw_ops.VarHandleOp(dtype=tf.bool, shape=(), container="", shared_name=text.numpy())

    def read(text: tf.Tensor) -> tf.Tensor:
        variable = tf.py_function(missing, [text], tf.resource)
        return tf.raw_ops.ReadVariableOp(resource=variable, dtype=tf.bool)

    failed = tf.not_equal(text, "")
    if text.graph.experimental_acd_manager is not None:
        raised = tf.cond(failed, lambda: read(text), lambda: tf.constant(True))
        _unordered(raised if raised.op.type != "Identity" else raised.op.inputs[0])
        return raised
    # A Session copies all functions of its graph for each new operation, and tf.cond makes two functions. A tf.function
    # cannot use Switch, because it waits for all operations of read(), which do not run if the text is empty.
    whole, failure = tf.raw_ops.Switch(data=text, pred=failed)
    return tf.raw_ops.Merge(inputs=[tf.equal(whole, ""), read(failure)])[0]


class _Waiters:
    """Threads that wait for submitted runs, one thread for each run. An idle thread is reused for the next run."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    def run(self, task: Callable[[], None]) -> None:
        with self._lock:
            start = self._idle == 0
            if not start:
                self._idle -= 1
        self._tasks.put(task)
        if start:
            threading.Thread(target=self._work, name="hvd-wait", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._tasks.get()()
            with self._lock:
                self._idle += 1


_waiters = _Waiters()


_names: weakref.WeakKeyDictionary[tf.Graph, set[str]] = weakref.WeakKeyDictionary()  # names used in each graph


def name_of(name: Optional[str], kind: str, tensor: Any, ignore_name_scope: bool = False) -> Optional[str]:
    """Returns the name by which the ranks match a call: in eager mode `name`, which may be None.

    A graph may run its calls in any order, so there every call gets a name: `name`, or one made from the tensor's name,
    prefixed with the name scope, and with a number if the graph already uses it.
    """
    if tf.executing_eagerly():
        return name
    scope = "" if ignore_name_scope else tf.compat.v1.get_default_graph().get_name_scope()
    return numbered(f"{scope}/" * bool(scope) + (name or f"{kind}.{getattr(tensor, 'name', 'value')}"))


def numbered(name: str) -> str:
    """Returns the name, with a number if the graph already uses it, so that calls in one graph have different names."""
    if tf.executing_eagerly():
        return name
    taken = _names.setdefault(_naming_graph(), set())
    candidates = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(1)))
    free = next(candidate for candidate in candidates if candidate not in taken)
    taken.add(free)
    return free


def _naming_graph() -> tf.Graph:
    """Returns the graph within which names must differ.

    For a Session that is the whole graph, with the branches of tf.cond and the bodies of loops, which run at the same
    time. For a tf.function it is the function's own graph, because it may be traced again.
    """
    graph = tf.compat.v1.get_default_graph()
    while not in_function() and getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
    return graph


def empty_aligned(shape: Sequence[int], kind: np.dtype[Any]) -> Array:
    """Returns a new array, aligned so that TensorFlow makes a tensor of it without copying."""
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % _ALIGNMENT
    return memory[begin : begin + size].view(kind).reshape(shape)


_ALIGNMENT = 64
