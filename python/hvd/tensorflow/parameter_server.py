"""ParameterServer for Keras: rank 0 keeps the weights; each rank pushes gradients to it and pulls weights from it.

The optimizer itself is changed, as by DistributedOptimizer, and takes no steps any more: an optimizer with the same
settings does so on the server, on copies of the weights. hvd._parameter_server has the servers, their threads and what
ranks send. In a tf.function a push and a pull are one operation of Python, which runs on a thread of TensorFlow and
waits there for the server. Errors are those of _methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf

import hvd.numpy as hvn

from .. import _parameter_server, job, schedule
from .._parameter_server import GRADIENTS, METHOD, REST, Channel, Place
from ..objects import broadcast_object
from ..process_sets import ProcessSet
from ..types import Sum
from ._calls import Array
from ._methods import Arrays, Method, changed, plain_of, problem_of_state, refuse_tensorflow_1, variables_of
from .collectives import Gradient


def ParameterServer(optimizer: Any, staleness: int = 0, per_host: bool = False, every: int = 1) -> Any:
    """Returns the optimizer itself, changed so that rank 0, or one rank of each host, has the weights and the state.

    M. Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014; the bound is that of Q.
    Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS 2013. In each
    step a rank sends its gradients to rank 0 and receives the weights. Rank 0 sends and receives those of all other
    ranks, and trains too. A server keeps the weights and the optimizer's state in host memory; other ranks have no
    state.

    optimizer: one of Keras. A collective: all ranks call it with the same arguments.
    staleness: by how many steps a rank may be ahead of the slowest, 0 or more. With 0, rank 0 waits for the gradients
    of all ranks and takes one step with their average: the result of DistributedOptimizer. With more, rank 0 takes a
    step with each gradient as it arrives, divided by the number of ranks: for plain SGD as much as one step with the
    average. Optimizers with momentum or Adam then take one step per rank instead of one; Adam needs a smaller rate, as
    the division does not change its steps.
    per_host: a server on each host, for the ranks of that host; the staleness is that between these. After every
    `every` steps the servers average their weights, weighted by their ranks, and wait for each other. The state of the
    optimizer is each server's own. With a staleness of 0, every=1 and an optimizer whose step is linear in the gradient
    (SGD, with momentum too) the result is that of DistributedOptimizer, but for rounding.

    The optimizer gets three methods. synchronize(), on all ranks: waits until all call it, and gives all the same
    weights; call it at the end of the training, before an evaluation, and on a rank without more data, as hvd.join()
    does not work while ranks train. full_state_dict(), on all ranks: synchronizes, and returns rank 0's weights and
    state, for hvd's checkpoints. load_state_dict(state, model.trainable_variables), on all ranks before the first step
    or after synchronize(): sets the weights, and continues with any number of ranks; all servers get rank 0's state.

    The first step gives all ranks rank 0's weights. Learning rates are those of the server, and a schedule is at the
    server's own step. Weights must not be added or thawed after it. A gradient that is None is sent as zeros, and a
    sparse one as a dense one. Weights that are not trainable, as those of BatchNormalization, are each rank's own.

    Errors: on all ranks, InvalidArgumentError, a ValueError, for an invalid `staleness` or an optimizer with loss
    scaling, use_ema or gradient_accumulation_steps; MismatchError if settings or weights differ.
    """
    refuse_tensorflow_1(METHOD, optimizer)
    method = _ParameterServer(type(optimizer))
    method.agree(optimizer, {"staleness": staleness, "per_host": bool(per_host), "every": every})
    return changed(method, optimizer, _without_state(optimizer))


def _without_state(optimizer: Any) -> dict[str, Any]:
    """Returns a build() of an optimizer of Keras 3 that makes no momentum and the like."""
    if not hasattr(optimizer, "stateless_apply"):
        return {}

    def build(self: Any, variables: Sequence[Any]) -> None:
        if not self.built:
            tf.keras.optimizers.Optimizer.build(self, list(variables))

    return {"build": build}


def _problem_of(optimizer: Any) -> str:
    """Returns what an optimizer has that a server cannot do; "" if nothing."""
    if hasattr(optimizer, "inner_optimizer"):
        return "LossScaleOptimizer is not supported"
    for option in ("use_ema", "gradient_accumulation_steps"):
        if getattr(optimizer, option, None):
            return f"an optimizer with {option} is not supported"
    return ""


class _ParameterServer(Method):
    METHOD = METHOD

    _server: Optional[_Server] = None  # on servers, from the first step on
    _channel: Optional[Channel] = None  # on the other ranks, from the first step on
    _settings: dict[str, Any]  # what a saved state must have been saved with
    _name: str  # of its collectives
    _place: Place
    _optimizer: Any  # the program's, from the first step or load on, with its variables
    _given: list[Any]

    def __init__(self, plain_class: type) -> None:
        self._plain_class = plain_class
        self._tensors = []

    def agree(self, optimizer: Any, settings: dict[str, Any]) -> None:
        """Compares the settings of all ranks. A collective."""
        number = _parameter_server.agree(settings, type(optimizer).__name__, [], _problem_of(optimizer))
        self._settings = {"method": METHOD, **settings}
        self._name = f"{METHOD}.{number}"
        self._place = _parameter_server.make_place(settings["per_host"], settings["every"])

    # ---- Steps ------------------------------------------------------------------------------------

    def apply(self, optimizer: Any, gradients: Sequence[Gradient], variables: list[Any],
              apply: Callable[[list[Gradient]], Any]) -> Any:
        """Pushes the gradients, waits as long as the bound of staleness demands, and pulls the weights."""
        self._check(optimizer, variables)
        self._optimizer, self._given = optimizer, list(variables)
        done = self._when(lambda: not self._begun(), self._begin)
        known = self._known_variables()
        inputs = [_rate_of(optimizer),
                  *(tf.zeros_like(variable) if gradient is None else tf.cast(gradient, variable.dtype)
                    for gradient, variable in zip(map(_dense, gradients), known))]

        def turn(rate: Array, *arrays: Array) -> Arrays:
            return self._turn(GRADIENTS, arrays, float(rate))

        if tf.executing_eagerly():
            for variable, value in zip(known, turn(*(tensor.numpy() for tensor in inputs))):
                variable.assign(value)
        else:
            with tf.control_dependencies(done):
                done = self._assign_in_graph(turn, inputs)
        with tf.control_dependencies(done):
            return _iterations_of(optimizer).assign_add(1)

    def synchronize(self) -> None:
        self._now(self._rest)

    def _rest(self) -> None:
        if not self._begun():
            self._begin()
        self._tensors = self._turn(REST, self._tensors)

    def _begun(self) -> bool:
        return self._server is not None or self._channel is not None

    def _turn(self, kind: int, arrays: Sequence[Array], rate: Optional[float] = None) -> Arrays:
        """Returns the new weights. arrays: the gradients or, for a rest, arrays of the same sizes. rate: for servers."""
        if self._server is None:
            assert self._channel is not None
            return _unflat(self._channel.turn(kind, _flat(arrays)), arrays)
        self._server.take_rate(rate)
        return _unflat(self._server.turn(0, kind, _flat(arrays)), arrays)

    def _begin(self) -> None:
        """Gives all ranks rank 0's weights, and starts the servers. A collective."""
        for index, tensor in enumerate(self._tensors):
            hvn.broadcast_(tensor, 0, f"{self._name}.begin.{index}")
        place = self._place
        if job.rank() != place.server:
            self._channel = Channel(_TRANSFERS, self._name, job.rank(), place.server, place.pair)
            return
        self._server = _Server(self._plain_class, self._optimizer, self._given, self._tensors,
                               self._settings["staleness"], self._name, place)
        self._server.start()

    # ---- Saving and loading -----------------------------------------------------------------------

    def full_state_dict(self, optimizer: Any) -> dict[str, Any]:
        variables = self._known_variables()
        self.synchronize()
        own = None
        if self._server is not None and job.rank() == 0:
            own = {"weights": [variable.numpy() for variable in variables],
                   "optimizer": self._server.state(),
                   "iterations": int(_iterations_of(optimizer).numpy()), "rate": float(_rate_of(optimizer))}
        return {**self._described(optimizer), **broadcast_object(own, name=f"{self._name}.state")}

    def _described(self, optimizer: Any) -> dict[str, Any]:
        """Returns what a saved state must have been saved with."""
        return {**self._settings, "class": type(optimizer).__name__, "parameters": len(self._known_variables())}

    def load_state_dict(self, optimizer: Any, state: dict[str, Any], variables: Sequence[Any]) -> None:
        self._adopt(variables)
        known = self._known_variables()
        _parameter_server.check_saved(state, self._described(optimizer))
        for variable, value in zip(known, state["weights"]):
            if tuple(variable.shape) != tuple(value.shape):
                raise ValueError(f"hvd: {METHOD}: the state was saved with a weight of shape {list(value.shape)} instead "
                                 f"of {list(variable.shape)}; it is of another model")
        self._optimizer, self._given = optimizer, list(variables)
        if not self._begun():
            self._now(self._begin)
        schedule.agree(METHOD, {}, [], self._server.problem_of(state["optimizer"]) if self._server is not None else "")
        if self._server is not None:
            self._server.load(state["weights"], state["optimizer"])
        for variable, value in zip(known, state["weights"]):
            variable.assign(value)
        _iterations_of(optimizer).assign(state["iterations"])
        _set_rate(optimizer, state["rate"])


class _Transfers:
    """The collectives of _parameter_server."""

    def broadcast(self, tensor: Array, root: int, name: str, process_set: ProcessSet) -> Any:
        return hvn.broadcast_async_(tensor, root, name, process_set)

    def sum(self, tensor: Array, name: str, process_set: ProcessSet) -> Any:
        return hvn.allreduce_async_(tensor, name, Sum, process_set=process_set)

    def numbers(self, values: list[int]) -> Array:
        return np.array(values, np.int64)

    def empty_like(self, tensor: Array) -> Array:
        return np.empty_like(tensor)


_TRANSFERS = _Transfers()


class _Server(_parameter_server.Server):
    """Steps with copies of the weights, by another optimizer of the same class and settings."""

    def __init__(self, plain_class: Any, optimizer: Any, variables: Sequence[Any], values: Arrays, staleness: int,
                 name: str, place: Place) -> None:
        super().__init__(_TRANSFERS, staleness, name, place)
        config = optimizer.get_config()
        config["learning_rate"] = float(_rate_of(optimizer))  # in place of a schedule, which the program's optimizer has
        with tf.device("/CPU:0"):
            self._optimizer = plain_class.from_config(config)
            self._variables = [_copy_of(variable, value) for variable, value in zip(variables, values)]
            _exclude_from_weight_decay(optimizer, variables, self._optimizer, self._variables)
            if hasattr(self._optimizer, "build"):
                self._optimizer.build(self._variables)
            else:  # a legacy one
                self._optimizer._create_all_weights(self._variables)
        own, theirs = _state_of(self._optimizer), _state_of(optimizer)
        if len(own) == len(theirs):  # it has made steps before
            for variable, other in zip(own, theirs):
                variable.assign(other)

    def take_rate(self, rate: Optional[float]) -> None:
        """Takes the learning rate of the server's own optimizer, unless it is None, before a turn of its rank."""
        with self.clocks.changed:
            if rate is not None:
                _set_rate(self._optimizer, rate)
            self.begin_turns()

    def flat(self) -> Arrays:
        return _flat([plain_of(variable).numpy() for variable in self._variables])

    def put(self, flat: Arrays) -> None:
        plain = [plain_of(variable) for variable in self._variables]
        for variable, value in zip(plain, _unflat(flat, [variable.numpy() for variable in plain])):
            variable.assign(value)

    def step(self, flat: Arrays) -> None:
        like = [plain_of(variable).numpy() for variable in self._variables]
        with tf.device("/CPU:0"):
            gradients = [tf.convert_to_tensor(array) / self.ranks for array in _unflat(flat, like)]
            self._optimizer.apply_gradients(list(zip(gradients, self._variables)))

    def state(self) -> Arrays:
        with self.clocks.changed:
            return [plain_of(variable).numpy() for variable in variables_of(self._optimizer)]

    def problem_of(self, state: Arrays) -> str:
        """Returns why a state is of another optimizer; "" if load() can take it."""
        return problem_of_state(variables_of(self._optimizer), state)

    def load(self, weights: Arrays, state: Arrays) -> None:
        """Takes weights and the optimizer's state."""
        with self.clocks.changed:
            for variable, value in zip([*self._variables, *variables_of(self._optimizer)], [*weights, *state]):
                plain_of(variable).assign(value)


def _copy_of(variable: Any, value: Array) -> Any:
    """Returns a variable of the same kind with this value."""
    if plain_of(variable) is variable:
        return tf.Variable(value, name=variable.name.split(":")[0], constraint=getattr(variable, "constraint", None))
    copy = type(variable)(value, dtype=variable.dtype, name=variable.name)
    copy.constraint = variable.constraint
    return copy


def _exclude_from_weight_decay(source: Any, variables: Sequence[Any], target: Any, copies: Sequence[Any]) -> None:
    """Excludes the copies of the variables that the program has excluded, which is in no config."""
    excluded = getattr(source, "_exclude_from_weight_decay", None)
    if excluded is None:
        return
    target.exclude_from_weight_decay([copy for variable, copy in zip(variables, copies)
                                      if source._var_key(variable) in excluded])
    for patterns in ("_exclude_from_weight_decay_pattern", "_exclude_from_weight_decay_names"):
        if hasattr(source, patterns):
            setattr(target, patterns, getattr(source, patterns))


def _rate_of(optimizer: Any) -> tf.Tensor:
    """Returns the present learning rate; of a schedule, that of the present step."""
    rate = optimizer.learning_rate
    for schedule in (rate, getattr(optimizer, "_learning_rate", None)):
        if isinstance(schedule, tf.keras.optimizers.schedules.LearningRateSchedule):
            rate = schedule(_iterations_of(optimizer))
    return tf.cast(plain_of(rate), tf.float32)


def _set_rate(optimizer: Any, rate: float) -> None:
    """Sets the learning rate, unless it is a schedule or a function."""
    if not any(map(callable, (optimizer.learning_rate, getattr(optimizer, "_learning_rate", None)))):
        optimizer.learning_rate = rate


def _state_of(optimizer: Any) -> list[tf.Variable]:
    """Returns the variables of an optimizer without its learning rate."""
    rate = plain_of(optimizer.learning_rate)
    return [plain for plain in map(plain_of, variables_of(optimizer)) if plain is not rate]


def _iterations_of(optimizer: Any) -> tf.Variable:
    with tf.init_scope():
        return plain_of(optimizer.iterations)


def _dense(gradient: Gradient) -> Optional[tf.Tensor]:
    return gradient if gradient is None else tf.convert_to_tensor(gradient)


def _by_type(arrays: Sequence[Array]) -> list[list[Array]]:
    groups: dict[Any, list[Array]] = {}
    for array in arrays:
        groups.setdefault(array.dtype, []).append(array)
    return list(groups.values())


def _flat(arrays: Sequence[Array]) -> Arrays:
    """Returns new flat arrays with the elements, one for each type."""
    return [np.concatenate([array.reshape(-1) for array in group]) for group in _by_type(arrays)]


def _unflat(flat: Arrays, like: Sequence[Array]) -> Arrays:
    """Returns the parts of _flat(), in the order and with the shapes of these arrays."""
    rest = dict(zip(dict.fromkeys(array.dtype for array in like), flat))
    parts = []
    for array in like:
        values = rest[array.dtype]
        parts.append(values[:array.size].reshape(array.shape))
        rest[array.dtype] = values[array.size:]
    return parts
