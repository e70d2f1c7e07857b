"""The class of a DistributedOptimizer that reduces gradients before the optimizer's step."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ._wrapping import Closure, Wrapped
from .reducer import Reducer


class GradientOptimizer(Wrapped):
    """The base class that a DistributedOptimizer has in front of the class of the wrapped optimizer."""

    _reducer: Reducer
    _synchronized: bool
    _should_synchronize: bool

    @property
    def backward_passes_per_step(self) -> int:
        return self._reducer.backward_passes_per_step

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Sets the number of calls of backward() before each step() from now on."""
        self._reducer.set_backward_passes_per_step(passes)

    def synchronize(self) -> None:
        """Waits until all gradients are reduced.

        Errors: those of hvd.errors, after all reductions have ended. The gradients then count as not computed.
        """
        self._reducer.adopt(self.param_groups)
        self._reducer.synchronize()
        self._synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Inside, step() does not call synchronize(). Call that before, for example to clip the reduced gradients."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Closure = None, **arguments: Any) -> Any:
        """Takes the optimizer's step with the reduced gradients. With a closure, reduces after each call of it."""
        if not self._should_synchronize:
            self._refuse_in_flight()
        elif closure is None or self._reducer.pending:
            if self._synchronized:
                # The beginning is Horovod's, because programs filter warnings by it.
                warnings.warn("optimizer.step() called without optimizer.skip_synchronize() after "
                              "optimizer.synchronize(), which reduces the gradients a second time; call it in "
                              "`with optimizer.skip_synchronize():`", stacklevel=2)
            self.synchronize()
        self._synchronized = False
        return self._apply(None if closure is None else self._synchronized_closure(closure), **arguments)

    # torch's Optimizer would wrap this step() for profiling and step hooks; the step() called here is wrapped already.
    step.hooked = True  # type: ignore[attr-defined]

    def _apply(self, closure: Closure, **arguments: Any) -> Any:
        """Takes the step with the gradients that the reducer has put into the parameters."""
        return super().step(closure, **arguments)

    def _synchronized_closure(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def reduced() -> Any:
            loss = closure()
            if self._should_synchronize:
                self.synchronize()
                self._synchronized = False
            else:
                self._refuse_in_flight()
            return loss

        return reduced

    def _refuse_in_flight(self) -> None:
        if self._reducer.in_flight():
            raise AssertionError("hvd: step() inside skip_synchronize() while gradients are being reduced; call "
                                 "synchronize() before")

    def zero_grad(self, *arguments: Any, **options: Any) -> None:
        """Clears the gradients. AssertionError between backward() and step() or synchronize(), during reductions."""
        if self._reducer.pending:
            raise AssertionError("hvd: zero_grad() after backward(), but before step() or synchronize(): gradients are "
                                 "being reduced")
        super().zero_grad(*arguments, **options)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters. ValueError if named_parameters was given and lacks one of them."""
        super().add_param_group(param_group)
        self._reducer.check_names(self.param_groups)
        self._reducer.adopt(self.param_groups)

    def forget_step(self) -> None:
        self._reducer.abandon()
        self._forget_synchronization()

    def _forget_synchronization(self) -> None:
        self._synchronized = False
        self._should_synchronize = True

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state. Gradients computed since the last step() are dropped."""
        self._reducer.reset()
        self._forget_synchronization()
        super().load_state_dict(state_dict)
