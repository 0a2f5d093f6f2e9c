"""An update: gradients of many batches, optimizers and their moments, the schedule of the learning rate."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from nmt.config import schema
from nmt.data.batching import Batch
from nmt.device import out_of_memory
from nmt.errors import CheckpointError
from nmt.messages import Caution, Say
from nmt.runs.checkpoints import refuse_other_tensors
from nmt.training.gradients import Gradients
from nmt.training.progress import Progress
from nmt.training.world import Machine


class Accumulation:
    """Adds up what the batches of an update, in all processes, change in a model: gradients, and moving averages.

    Gradients in fp32 are summed in float64: sums in fp32 depend on their order, so on the number of processes, and Adam
    enlarges the difference where a gradient is small. Those of narrower types are summed in fp32, which the parameters
    of a single process do themselves; a single batch needs no sum.

    ``DistributedDataParallel`` wraps the forward pass of one module and cannot repeat a batch that one process had no
    memory for.
    """

    def __init__(self, model: nn.Module, machine: Machine, batches: int = 1) -> None:
        self.parameters = list(model.parameters())
        self.averages = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        """What a batch changes beside gradients: the moving average of REINFORCE's rewards."""
        self.world = machine.world
        exact = machine.precision != torch.bfloat16
        self.total: Tensor | None = None
        """One parameter after another; allocated once, so that no update runs out of memory here."""
        if self.world.size > 1 or (batches > 1 and exact):
            size, device = sum(map(torch.numel, self.parameters)), self.parameters[0].device
            self.total = torch.zeros(size, dtype=torch.float64 if exact else torch.float32, device=device)
        self._before: list[Tensor] = []

    def forward_backward(
        self, gradients: Gradients, batches: Sequence[Batch], tokens: int, progress: Progress, say: Say
    ) -> tuple[Tensor, bool]:
        """Add up the gradients of the batches of all processes, divided by ``tokens``; while a process has too little
        memory for its own batches, begin again with their halves, in all processes.

        Halved batches have the same gradients except for dropout, which is sampled again. Returns the negative
        log-likelihood of all batches, and whether they were halved. Raises CheckpointError if memory is too small for
        single pairs.
        """
        halved = False
        self.begin()
        while True:
            nll, fits = torch.zeros((), dtype=torch.float64), True
            try:
                for batch in batches:
                    nll = nll + gradients(batch, tokens, progress.update)
                    self.add()
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                fits = False
            if not self.world.any(not fits):
                self.finish()
                return self.world.sum(nll), halved
            gradients.reset()
            self.undo()
            torch.cuda.empty_cache()
            largest = max(self.world.gather(max(len(batch.source) for batch in batches)))
            if largest == 1:
                remedy = "start again with a lower data.filter.max_pieces or a smaller model"
                raise CheckpointError(f"{progress.place}: out of memory with a single pair; {remedy}")
            batches, halved = [half for batch in batches for half in batch.halves()], True
            problem = f"{progress.place}: out of memory with {largest} pairs; retrying in halves"
            say(Caution(f"{problem} (a smaller training.batch_tokens avoids this)"))

    def begin(self) -> None:
        """Begin an update."""
        self._before = [average.clone() for average in self.averages]

    def add(self) -> None:
        """Move the gradients of a batch into the sum."""
        for parameter, part in self._parts():
            if parameter.grad is not None:
                part.add_(parameter.grad.flatten())
                parameter.grad.zero_()

    def undo(self) -> None:
        """Forget all batches since :meth:`begin`; the parameters' own gradients are left to ``Gradients.reset``."""
        if self.total is not None:
            self.total.zero_()
        for average, old in zip(self.averages, self._before, strict=True):
            average.copy_(old)

    def finish(self) -> None:
        """Write the sum over all processes into the parameters' gradients, and change averages by the mean change."""
        if self.world.size > 1:
            for average, old in zip(self.averages, self._before, strict=True):
                average.copy_(old + self.world.sum(average - old) / self.world.size)
        if self.total is not None:
            self.world.sum(self.total)
            for parameter, part in self._parts():
                if parameter.grad is None:
                    parameter.grad = torch.empty_like(parameter)
                parameter.grad.copy_(part.view_as(parameter))
            self.total.zero_()

    def _parts(self) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """Each parameter with its part of the sum."""
        if self.total is None:
            return iter(())
        return zip(self.parameters, self.total.split([each.numel() for each in self.parameters]), strict=True)


# --- optimizers and schedules -----------------------------------------------------------------------------------------


def build_optimizer(parameters: Iterable[nn.Parameter], config: schema.AnyOptimizer) -> torch.optim.Optimizer:
    """The configured optimizer over these parameters."""
    optimizer: torch.optim.Optimizer = schema.OPTIMIZERS.build(config, parameters)
    return optimizer


@schema.OPTIMIZERS.builds(schema.Adam)
def _adam(config: schema.Adam, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=config.learning_rate, betas=config.betas, eps=config.epsilon, fused=True)


@schema.OPTIMIZERS.builds(schema.AdamW)
def _adamw(config: schema.AdamW, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(
        parameters,
        lr=config.learning_rate,
        betas=config.betas,
        eps=config.epsilon,
        weight_decay=config.weight_decay,
        fused=True,
    )


@schema.OPTIMIZERS.builds(schema.Adadelta)
def _adadelta(config: schema.Adadelta, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adadelta(parameters, lr=config.learning_rate, rho=config.rho, eps=config.epsilon)


@schema.OPTIMIZERS.builds(schema.Sgd)
def _sgd(config: schema.Sgd, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=config.learning_rate, momentum=config.momentum)


def saved_moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of the optimizer, by parameter index and moment name."""
    return {
        f"optimizer.{index}.{name}": value
        for index, moments in optimizer.state_dict()["state"].items()
        for name, value in moments.items()
        if value is not None
    }


def load_moments(
    optimizer: torch.optim.Optimizer,
    config: schema.AnyOptimizer,
    moments: Mapping[str, Tensor],
    where: str,
    *,
    stepped: bool,
) -> None:
    """Load :func:`saved_moments`; ``stepped`` says whether the optimizer had made a step before they were saved.

    Raises CheckpointError unless names and shapes are exactly those of this optimizer, whose kernels would read beyond
    the end of a tensor that is too small.
    """
    used = {key.split(".")[1] for key in moments if key.count(".") == 2}
    shapes: dict[str, torch.Size] = {}
    for index, parameter in enumerate(each for group in optimizer.param_groups for each in group["params"]):
        if str(index) in used or not used:  # a parameter that never had a gradient has no moments
            twin = nn.Parameter(torch.zeros(parameter.shape))
            twin.grad = torch.zeros(parameter.shape)
            fresh = build_optimizer([twin], config)
            if stepped:
                fresh.step()
            shapes |= {
                f"optimizer.{index}.{name}": each.shape for name, each in fresh.state[twin].items() if each is not None
            }
    refuse_other_tensors(moments, shapes, where, "optimizer")
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in moments.items():
        _, number, name = key.split(".")
        state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def learning_rate(schedule: schema.AnySchedule, base: float, update: int, scale: float = 1.0) -> float:
    """The learning rate of an update, counted from 1; ``scale`` is the current factor of the plateau schedule; other
    schedules ignore it."""
    warm = min(1.0, update / schedule.warmup) if schedule.warmup else 1.0
    if isinstance(schedule, schema.InverseSquareRootSchedule):
        return base * min(warm, math.sqrt(schedule.warmup / update))
    return base * warm * (scale if isinstance(schedule, schema.PlateauSchedule) else 1.0)
