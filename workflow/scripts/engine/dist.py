"""The one place that knows ranks, sharding and signals."""

import os
import signal

import torch
import torch.distributed as distributed
from torch import Tensor, nn

from common.errors import UserError
from engine.model import Block, CrossAttention

LARGE = 1 << 20  # numbers: so many are a message of their own, which needs no copy


class Ranks:
    """This process among the others. Without torchrun it is the only one."""

    def __init__(self, expected_world_size: int | None = None):
        self.rank = int(os.environ.get("RANK", 0))
        self.world_size = int(os.environ.get("WORLD_SIZE", 1))
        self.local_rank = int(os.environ.get("LOCAL_RANK", 0))
        if expected_world_size is not None and expected_world_size != self.world_size:
            raise UserError(
                f"asked for {expected_world_size} processes but {self.world_size} were started; "
                "check the rule's resources and torchrun's --nproc-per-node"
            )
        self.device = torch.device("cuda", self.local_rank) if torch.cuda.is_available() else torch.device("cpu")
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)  # else whatever names no device takes the first
        if self.world_size > 1 and not distributed.is_initialized():
            distributed.init_process_group("cpu:gloo,cuda:nccl" if self.device.type == "cuda" else "gloo")

    def sum(self, values: list[float]) -> list[float]:
        """Sums over all ranks, in fp64, past the devices: on a device they would wait for all that it has to do."""
        if self.world_size == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(tensor)
        return tensor.tolist()

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all ranks one after another; each may have another number of them."""
        if self.world_size == 1:
            return rows
        sizes = [0] * self.world_size
        distributed.all_gather_object(sizes, len(rows))
        padded = rows.new_zeros(max(sizes), *rows.shape[1:])
        padded[: len(rows)] = rows
        everyone = [torch.empty_like(padded) for _ in sizes]
        distributed.all_gather(everyone, padded)
        return torch.cat([part[:size] for part, size in zip(everyone, sizes, strict=True)])

    def sum_gradients(self, model: nn.Module, begun: "GradientSums") -> None:
        """Every loss was divided by its count over all ranks, so gradients add up: large ones where they are, all
        others in one flat message a step."""
        if self.world_size == 1:
            return
        begun.send_the_rest()
        trained = [p for p in model.parameters() if p.requires_grad and not is_cut(p)]
        used = self.sum([float(p in begun.used or (p.grad is not None and p.numel() < LARGE)) for p in trained])
        begun.wait()
        small = []
        for parameter, ranks in zip(trained, used, strict=True):
            if not ranks:  # what no rank used stays without a gradient
                parameter.grad = None
            elif parameter.numel() < LARGE:
                parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                small.append(parameter)
        if not small:  # a phase that trains sharded modules alone
            return
        flat = torch.cat([parameter.grad.flatten() for parameter in small])
        distributed.all_reduce(flat)
        for parameter, part in zip(small, flat.split([p.numel() for p in small]), strict=True):
            parameter.grad = part.view_as(parameter)

    def slices(self, count: int) -> list[slice]:
        """Of so many numbers, each rank's; the last ones may be shorter, or empty."""
        size = -(-count // self.world_size)
        return [slice(min(count, rank * size), min(count, (rank + 1) * size)) for rank in range(self.world_size)]

    def exchange(self, flat: Tensor) -> None:
        """Each rank's slice to all others."""
        for rank, own in enumerate(self.slices(len(flat))):
            if own.start < own.stop:
                distributed.broadcast(flat[own], src=rank)

    def join(self, own: Tensor, like: Tensor) -> Tensor:
        """The whole of which each rank holds its slice, on the CPU of rank 0; every rank must call it."""
        flat = torch.empty(like.numel(), dtype=own.dtype, device=own.device)
        flat[self.slices(len(flat))[self.rank]] = own
        self.exchange(flat)
        return flat.view_as(like).cpu() if self.rank == 0 else flat.new_empty(0)

    def close(self) -> None:
        if self.world_size > 1:
            distributed.destroy_process_group()


class GradientSums:
    """The sums of large gradients over the ranks, of one step, begun while its last pass back is at work.

    Each begins as soon as it is whole and those before it have begun. Their order is that of the parameters from the
    last to the first, about that of the way back, and the same on every rank whichever of them a rank uses: else they
    would wait for each other for ever. For the same reason no rank may begin another message between `watch` and
    `send_the_rest`; FSDP does, so beside its blocks all begin with the latter.
    """

    def __init__(self, model: nn.Module, ranks: Ranks):
        self.left, self.begun, self.hooks, self.whole, self.used = [], [], [], set(), set()
        self.early = ranks.world_size > 1 and not is_sharded(model)
        if ranks.world_size > 1:
            trained = [p for p in reversed([*model.parameters()]) if p.requires_grad and not is_cut(p)]
            self.left = [p for p in trained if p.numel() >= LARGE]

    def watch(self) -> None:
        """From here on, until `send_the_rest`, a gradient that a pass back has added to is whole."""
        for parameter in self.left if self.early else ():
            self.hooks.append(parameter.register_post_accumulate_grad_hook(self.note))

    def note(self, parameter: Tensor) -> None:
        self.whole.add(parameter)
        while self.left and self.left[0] in self.whole:
            self.send(self.left.pop(0))

    def send(self, parameter: Tensor) -> None:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        else:
            self.used.add(parameter)
            parameter.grad = parameter.grad.contiguous()
        self.begun.append(distributed.all_reduce(parameter.grad, async_op=True))

    def send_the_rest(self) -> None:
        for hook in self.hooks:
            hook.remove()
        while self.left:
            self.send(self.left.pop(0))

    def wait(self) -> None:
        for message in self.begun:
            message.wait()


# Sharding (FSDP2). Blocks are cut over the ranks; all else (the embeddings, which are also the output matrix, and what
# the objectives bring) is whole on each, but for the optimiser: of a whole matrix each rank keeps the moments of its
# slice, updates that, and gets the others' (engine/optim.py). Losses are sums divided by global counts: gradients are
# summed, not averaged.
# torch.distributed.tensor and fsdp take 0.7 s to import, which a training that shards nothing need not wait for.


def shard_blocks(model: nn.Module, ranks: Ranks) -> None:
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    mesh = distributed.device_mesh.init_device_mesh(ranks.device.type, (ranks.world_size,))
    for module in [*model.modules()]:
        if isinstance(module, Block | CrossAttention):
            fully_shard(module, mesh=mesh)
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)  # gloo knows no scaled sum
            for name in ("self_attend", "feed_forward"):
                if hasattr(module, name):
                    register_fsdp_forward_method(module, name)


def is_cut(tensor: Tensor) -> bool:
    """A DTensor, of which each rank holds a part."""
    return hasattr(tensor, "to_local")


def local(tensor: Tensor) -> Tensor:
    """This rank's part, the whole where it is not cut."""
    return tensor.to_local() if is_cut(tensor) else tensor


def is_sharded(model: nn.Module) -> bool:
    return any(is_cut(p) for p in model.parameters())


def whole(tensor: Tensor) -> Tensor:
    """Of all ranks, on the CPU of rank 0 if it is cut. Every rank must call it."""
    if not is_cut(tensor):
        return tensor
    full = tensor.full_tensor()
    return full.cpu() if distributed.get_rank() == 0 else full.new_empty(0)


def cut_like(tensor: Tensor, own: Tensor) -> Tensor:
    """A whole tensor, the same on every rank, cut as another is."""
    if not is_cut(own):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(own.device), own.device_mesh, own.placements)


class StopRequest:
    """SIGTERM (time limit, preemption) and SIGUSR1 (warning before one) ask for a checkpoint and an early end."""

    def __init__(self):
        self.received: int | None = None
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, self.note)

    def note(self, number: int, frame: object) -> None:
        self.received = number

    def anywhere(self, ranks: Ranks) -> bool:
        """True on every rank as soon as one was told, so that all stop after the same step."""
        return ranks.sum([float(self.received is not None)])[0] > 0
