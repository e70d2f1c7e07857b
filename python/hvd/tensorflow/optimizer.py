"""DistributedOptimizer: turns an optimizer of Keras or of TensorFlow 1 into one that reduces its gradients.

The optimizer itself is changed: `optimizer.__class__` becomes a subclass of its class, of the same name. It keeps its
variables and settings, is saved under its original class, and loads without hvd.
"""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow as tf

from .. import errors
from .._retired import groups_of
from ..process_sets import ProcessSet, global_process_set
from ..types import Average, ReduceOp
from ._calls import as_written
from .collectives import Gradient, check_device
from .compression import Compression
from .gradients import Groups, Reduction, key_of, layers_variables

_STATE = "_hvd_state"  # a key in the optimizer's __dict__; set there directly, Keras does not save it


class _Passes:
    """Adds up gradients over several backward passes."""

    def __init__(self, passes: int, average: bool) -> None:
        self._passes = passes
        self._average = average
        self._sums: dict[Any, tf.Variable] = {}  # by the key of the variable
        self._counter: Optional[tf.Variable] = None

    def add(self, gradients: Sequence[Gradient], variables: Sequence[Any], then: Callable[[list[Gradient]], None],
            otherwise: Callable[[], None]) -> None:
        """Adds the gradients. On every `passes`-th call runs then(sums or averages), on the others otherwise().

        ValueError if other variables than on the first call have a gradient.
        """
        keys = [None if gradient is None else key_of(variable) for gradient, variable in zip(gradients, variables)]
        dense = {key: gradient for key, gradient in zip(keys, gradients) if key is not None}
        if any(isinstance(gradient, tf.IndexedSlices) for gradient in dense.values()):
            raise ValueError("hvd: backward_passes_per_step > 1 adds up dense gradients only: sparse_as_dense=True")
        counter = self._build(dense)
        for key, gradient in dense.items():
            self._sums[key].assign_add(gradient)
        counter.assign_add(1)

        def step() -> tf.Tensor:
            sums = {key: total / self._passes if self._average else total.read_value()
                    for key, total in self._sums.items()}
            then([None if key is None else sums[key] for key in keys])
            for total in self._sums.values():
                total.assign(tf.zeros_like(total))
            counter.assign(0)
            return tf.constant(True)

        def skip() -> tf.Tensor:
            otherwise()
            return tf.constant(False)

        tf.cond(counter >= self._passes, step, skip)

    def _build(self, gradients: dict[Any, tf.Tensor]) -> tf.Variable:
        """Returns the counter of passes; creates it and the sums on the first call."""
        if self._counter is not None:
            if gradients.keys() != self._sums.keys():
                raise ValueError("hvd: backward_passes_per_step > 1 needs gradients of the same variables each time")
            return self._counter
        with tf.init_scope():
            self._counter = tf.Variable(0, trainable=False, dtype=tf.int32)
            self._sums = {key: tf.Variable(tf.zeros(gradient.shape, gradient.dtype), trainable=False)
                          for key, gradient in gradients.items()}
        return self._counter


class _State:
    """hvd's state of one optimizer."""

    def __init__(self, reduction: Reduction, passes: Optional[_Passes]) -> None:
        self.reduction = reduction
        self.passes = passes
        self.checked = False
        self.in_minimize = False
        self.computes = False  # whether gradients come from compute_gradients(), which has reduced them
        self.computed_since_apply = False

    def computed(self, gradients: Sequence[Gradient], variables: Sequence[Any]) -> list[Gradient]:
        """Returns the result of compute_gradients(): reduced gradients. apply() then does not reduce again."""
        if self.in_minimize:
            return list(gradients)  # apply() follows
        self.computes = self.computed_since_apply = True
        return self.reduction.reduce(gradients, variables)

    def _reduce(self, gradients: Sequence[Gradient], variables: Sequence[Any]) -> list[Gradient]:
        if self.computes and not self.in_minimize:
            if not self.computed_since_apply:
                warnings.warn("hvd: these gradients are applied as they are: as compute_gradients() of this optimizer "
                              "has been called before, they are taken for its, which are reduced")
            self.computed_since_apply = False
            return list(gradients)
        return self.reduction.reduce(gradients, variables)

    def apply(self, optimizer: Any, gradients: Sequence[Gradient], variables: list[Any],
              apply: Callable[[list[Gradient]], Any]) -> Any:
        """Calls apply(reduced gradients); in a pass without a step only increments the optimizer's iterations."""
        if not self.checked:
            refuse_inside_loss_scaling(optimizer)
            self.checked = True
        if self.passes is None:
            return apply(self._reduce(gradients, variables))
        if self.reduction.sparse_as_dense:
            gradients = [None if gradient is None else tf.convert_to_tensor(gradient) for gradient in gradients]
        with tf.init_scope():
            iterations = optimizer.iterations
        self.passes.add(gradients, variables, lambda sums: apply(self._reduce(sums, variables)),
                        lambda: iterations.assign_add(1))
        return iterations


def refuse_inside_loss_scaling(optimizer: Any) -> None:
    """Raises UnsupportedError if a LossScaleOptimizer calls this optimizer.

    It would skip steps that overflow on its own rank, and the other ranks would wait.
    """
    frame: Optional[types.FrameType] = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if getattr(owner, "inner_optimizer", None) is optimizer and "LossScaleOptimizer" in type(owner).__name__:
            raise errors.UnsupportedError(
                "hvd: a LossScaleOptimizer around a DistributedOptimizer leaves out steps on single ranks; wrap it the "
                "other way round: hvd.DistributedOptimizer(keras.optimizers.LossScaleOptimizer(optimizer)) "
                "(Keras makes the outer one for the policy mixed_float16)")
        frame = frame.f_back


def is_distributed(optimizer: Any) -> bool:
    return optimizer is not None and hasattr(type(optimizer), "_hvd_new_state")


def state_of(optimizer: Any) -> Any:
    """Returns hvd's state of an optimizer that hvd has changed: a _State, or a method of local_steps."""
    state = vars(optimizer).get(_STATE)
    if state is None:
        state = vars(optimizer)[_STATE] = type(optimizer)._hvd_new_state()
    return state


def _register_local_var(self: Any, variable: Any) -> None:
    """Excludes the gradient of this variable from the reduction."""
    state_of(self).reduction.local.add(key_of(variable))


def _of_keras_3(base: Any) -> dict[str, Any]:
    @as_written
    def apply(self: Any, grads: Sequence[Gradient], trainable_variables: Any = None) -> Any:
        if trainable_variables is None and not self.built:
            return base.apply(self, grads)  # raises the error that it is not built
        variables = list(self._trainable_variables if trainable_variables is None else trainable_variables)
        if not self.built:
            self.build(variables)
        return state_of(self).apply(self, list(grads), variables,
                                  lambda reduced: base.apply(self, reduced, variables))

    @as_written
    def compute_gradients(self: Any, loss: Any, var_list: Any, tape: Optional[tf.GradientTape] = None) -> Any:
        """Returns pairs (reduced gradient, variable), like an optimizer of Keras 2.

        loss: a function, or a tensor that `tape` has recorded. apply_gradients() does not reduce such gradients again,
        whether they were clipped or not.
        """
        if hasattr(self, "inner_optimizer") or self.loss_scale_factor:
            raise errors.UnsupportedError("hvd: compute_gradients() does not scale the loss: use a tf.GradientTape, "
                                          "scale_loss() and apply_gradients(), which reduces")
        tape = tape or tf.GradientTape()
        if callable(loss):
            with tape:
                loss = loss()
        variables = list(var_list() if callable(var_list) else var_list)
        return list(zip(state_of(self).computed(tape.gradient(loss, variables), variables), variables))

    return {"apply": apply, "compute_gradients": compute_gradients}


def _of_keras_2(base: Any) -> dict[str, Any]:
    @as_written
    def apply_gradients(self: Any, grads_and_vars: Any, name: Optional[str] = None, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        variables = [variable for _, variable in pairs]
        return state_of(self).apply(
            self, [gradient for gradient, _ in pairs], variables,
            lambda reduced: base.apply_gradients(self, list(zip(reduced, variables)), name=name, **kwargs))

    @as_written
    def minimize(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = state_of(self)
        state.in_minimize = True
        try:
            return base.minimize(self, *args, **kwargs)
        finally:
            state.in_minimize = False

    @as_written
    def _compute_gradients(self: Any, loss: Any, var_list: Any, grad_loss: Any = None,
                           tape: Optional[tf.GradientTape] = None) -> list[tuple[Gradient, Any]]:
        if hasattr(base, "_compute_gradients"):
            pairs = base._compute_gradients(self, loss, var_list, grad_loss, tape)
        else:
            pairs = base.compute_gradients(self, loss, var_list, tape)
        gradients, variables = zip(*pairs)
        return list(zip(state_of(self).computed(gradients, variables), variables))

    def compute_gradients(self: Any, loss: Any, var_list: Any, tape: Optional[tf.GradientTape] = None) -> Any:
        return self._compute_gradients(loss, var_list, None, tape)

    @as_written
    def get_gradients(self: Any, loss: Any, params: Sequence[Any]) -> list[Gradient]:
        return state_of(self).computed(base.get_gradients(self, loss, params), params)

    # Horovod's optimizers have compute_gradients() under both names, with every version of Keras. Only legacy
    # optimizers have get_gradients().
    return {"apply_gradients": apply_gradients, "minimize": minimize, "_compute_gradients": _compute_gradients,
            "compute_gradients": compute_gradients,
            **({"get_gradients": get_gradients} if hasattr(base, "get_gradients") else {})}


def _of_tensorflow_1(base: Any) -> dict[str, Any]:
    @as_written
    def compute_gradients(self: Any, *args: Any, **kwargs: Any) -> list[tuple[Gradient, Any]]:
        gradients, variables = zip(*base.compute_gradients(self, *args, **kwargs))
        return list(zip(state_of(self).reduction.reduce(gradients, variables), variables))

    return {"compute_gradients": compute_gradients}


def _methods(base: type, method: str) -> dict[str, Any]:
    if issubclass(base, tf.compat.v1.train.Optimizer):
        return _of_tensorflow_1(base)
    if hasattr(base, "stateless_apply"):
        return _of_keras_3(base)
    if hasattr(base, "apply_gradients"):
        return _of_keras_2(base)
    raise TypeError(f"hvd: {method}() of a {base.__name__}, which is no optimizer of Keras or TensorFlow")


def distribute(optimizer: Any, new_state: Callable[[], Any], method: str, own: dict[str, Any]) -> Any:
    """Makes the optimizer distributed, and returns it. TypeError for another object, ValueError if it already is.

    new_state: makes what state_of() returns. method: the function that the program has called. own: further methods.
    """
    base = type(optimizer)
    if is_distributed(optimizer):
        raise ValueError(f"hvd: this {base.__name__} is a {base._hvd_method} already")
    methods = _methods(base, method)
    body = {**methods, **own, "_hvd_new_state": staticmethod(new_state), "_hvd_method": method,
            "__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    optimizer.__class__ = types.new_class(base.__name__, (base,), {}, lambda space: space.update(body))
    return optimizer


def DistributedOptimizer(optimizer: Any, name: Optional[str] = None, use_locking: bool = False, device_dense: str = "",
                         device_sparse: str = "", compression: Any = Compression.none, sparse_as_dense: bool = False,
                         backward_passes_per_step: int = 1, op: ReduceOp = Average,
                         gradient_predivide_factor: float = 1.0, average_aggregated_gradients: bool = False,
                         num_groups: int = 0, groups: Groups = None, process_set: ProcessSet = global_process_set,
                         scale_local_gradients: bool = True) -> Any:
    """Returns the optimizer itself, changed so that it reduces gradients over the ranks before it applies them.

    optimizer: one of Keras, or a tf.compat.v1.train.Optimizer.
    backward_passes_per_step: the number of passes whose gradients are added up on the rank (with
    average_aggregated_gradients: averaged) before they are reduced and applied; Keras only.
    groups: a number of groups, or lists of variables; the gradients of a group are reduced as one operation.
    gradient_predivide_factor: for Average only. Gradients are divided by it before they are added, and the sum is
    divided by size / factor.
    process_set: ranks outside of it apply their own gradients.
    use_locking: ignored.
    """
    check_device(device_dense, "device_dense")
    check_device(device_sparse, "device_sparse")
    if backward_passes_per_step < 1:
        raise ValueError(f"hvd: backward_passes_per_step={backward_passes_per_step}; it is at least 1")
    if backward_passes_per_step > 1 and isinstance(optimizer, tf.compat.v1.train.Optimizer):
        raise errors.UnsupportedError("hvd: backward_passes_per_step > 1 with an optimizer of TensorFlow 1")
    base_name = name or f"Distributed{type(optimizer).__name__}"
    groups = groups_of(groups, num_groups)

    def new_state() -> _State:
        reduction = Reduction(base_name, ReduceOp(op), compression, sparse_as_dense, gradient_predivide_factor, groups,
                              process_set, scale_local_gradients)
        passes = _Passes(backward_passes_per_step, average_aggregated_gradients)
        return _State(reduction, passes if backward_passes_per_step > 1 else None)

    new_state()  # raises errors in the arguments now, not in the first step
    return distribute(optimizer, new_state, "DistributedOptimizer", {"register_local_var": _register_local_var})


def PartialDistributedOptimizer(optimizer: Any, *args: Any, local_layers: Any = None, **kwargs: Any) -> Any:
    """Like DistributedOptimizer(), but does not reduce gradients of `local_layers` (a Keras layer or several)."""
    variables = layers_variables(local_layers)
    optimizer = DistributedOptimizer(optimizer, *args, **kwargs)
    for variable in variables:
        optimizer.register_local_var(variable)
    return optimizer
