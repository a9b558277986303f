"""What a training is given of a cluster, by its own size and within what its scale allows.

A scale's `resources` describe the largest job: `gpu`, `threads` and `mem_mb` of a node, the most `nodes`, the longest
`runtime`. Where it allows several nodes, a short training takes fewer, and one of a few GPU-hours a single GPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from plan.config import Config
from plan.runs import resolve_run
from plan.translators import resolve_translator

# Half of what bf16 training does on an H100 or H200, so that a slower card or a long context is still within the time.
SUSTAINED = 2e14  # floating-point operations per second and GPU
WANTED = 2 * 86400  # seconds that a training may take before it is given twice as many nodes
SMALL = 4 * 3600  # seconds on one GPU below which a training takes no more than that GPU
VOCABULARY = 250_002  # of the downloaded vocabulary; where one is trained, no job is given several nodes
START = 30  # minutes that every job is given beside its estimate: starting, and saving at the end
PAIR = 64  # tokens of a pair of sentences, which fills a row alone where a run does not pack
# What an objective computes of one trained pass over its rows, by the bill at the papers' sizes (a test compares them):
# further passes, decoders, parts of rows that hold nothing or have no logits. One that is not here is such a pass.
SHARES = {
    "btmlm": 1.2, "code-switch": 0.5, "denoising": 0.77, "dwa": 1.3, "hictl": 1.25, "mrtd": 1.3, "paraphrase": 0.8,
    "ppa": 1.4, "spans": 0.32, "translation": 0.68, "trtd": 1.3, "veco-mono": 2.2, "veco-pairs": 3.1, "xlco": 0.7,
}  # fmt: skip
SENTENCES_ALONE = 0.47  # PPA without masked words


@dataclass(frozen=True)
class Allocation:
    gpu: int  # per node; 0: a CPU job
    nodes: int
    threads: int  # per node
    mem_mb: int  # per node
    runtime: int  # minutes of one job; what is longer goes on in the next one

    @property
    def processes(self) -> int:
        return max(1, self.gpu) * self.nodes

    @property
    def threads_per_process(self) -> int:
        return max(1, self.threads // max(1, self.gpu))


# What a rule's job is given where its scale says nothing.
DEFAULTS = Allocation(gpu=0, nodes=1, threads=1, mem_mb=4000, runtime=120)


def allocated(config: Config, rule: str, names: Mapping[str, str]) -> Allocation:
    """What a job of `pretrain` or `train_translator` is given, by its wildcards. On the generated world all are short:
    who names nodes for them wants to try them."""
    most = replace(DEFAULTS, **config.scale.get("resources", {}).get(rule, {}))
    if config.has_world:
        return most
    if rule == "pretrain":
        return allocate(resolve_run(config, names["run"]), most)
    return allocate(resolve_translator(config, names["run"], names["task"], names["setting"]), most)


def rough_flops(run: Mapping[str, Any]) -> float:
    """Matrix products of a resolved run: good for a number of nodes, no more. What a training really costs is counted
    in engine/cost.py."""
    model, batch, schedule = run["model"], run["batch"], run["schedule"]
    h, f = model["width"], model["ffn"]
    total = 0.0
    for objective in run.get("objectives") or ():
        rows = objective.get("rows") or batch["rows"]
        length = objective.get("row_length") or batch["row_length"]
        if not objective.get("packing", True):
            length = min(length, PAIR)
        options = objective.get("options") or {}
        share = SHARES.get(objective["name"], 1.0) if options.get("sentences") != "none" else SENTENCES_ALONE
        logits = (objective.get("mask") or {}).get("rate", 0.5)  # without masks: a target of about half of the tokens
        blocks = (model["layers"] + options.get("decoder_layers", 0)) * (8 * h * h + 4 * h * f)
        total += share * 3 * rows * length * (blocks + logits * 2 * h * VOCABULARY)
    turns = len(run.get("objectives") or ()) if schedule.get("alternate") else 1
    return total * schedule["steps"] / max(1, turns)


def allocate(run: Mapping[str, Any], most: Allocation) -> Allocation:
    """What this run is given of the most that a job may have."""
    if most.gpu == 0 or most.nodes == 1:
        return most
    seconds = rough_flops(run) / SUSTAINED  # on one GPU
    if seconds < SMALL:
        share = most.gpu
        return Allocation(1, 1, max(1, most.threads // share), most.mem_mb // share, minutes(seconds, most))
    nodes = 1
    while nodes * 2 <= most.nodes and seconds / (most.gpu * nodes) > WANTED:
        nodes *= 2  # a power of two divides the rows of a batch
    runtime = minutes(seconds / (most.gpu * nodes), most)
    return Allocation(most.gpu, nodes, most.threads, most.mem_mb, runtime)


def minutes(seconds: float, most: Allocation) -> int:
    """Twice the estimate, in whole half hours: a shorter job starts sooner."""
    return min(most.runtime, START + 30 * -(-round(2 * seconds / 60) // 30))


def slurm_wants(gpu: int, nodes: int) -> dict[str, int | str]:
    """Slurm's wants for a GPU job: one node by gpu and nodes; several by mpi, with the counts on the job's own srun."""
    if gpu == 0 and nodes == 1:
        return {}
    if nodes == 1:
        return {"gpu": gpu, "nodes": 1}
    gpus = f"--gpus-per-node={gpu} " if gpu else ""
    return {"mpi": "srun", "nodes": nodes, "tasks": nodes, "slurm_extra": f"{gpus}--ntasks-per-node=1"}


def launcher(given: Allocation) -> list[str]:
    """The words that start a training: plainly, by torchrun on one node, or by one torchrun per node."""
    if given.nodes > 1:
        counts = [f"--nodes={given.nodes}", f"--ntasks={given.nodes}", "--ntasks-per-node=1"]
        node = ["bash", "workflow/scripts/launch_node.sh", str(max(1, given.gpu))]
        return ["srun", "--kill-on-bad-exit=1", *counts, f"--cpus-per-task={given.threads}", *node]
    if given.gpu > 1:
        return ["torchrun", "--standalone", f"--nproc-per-node={given.gpu}"]
    return ["python"]


def time_budget(runtime: int) -> int:
    """The seconds after which a training saves and ends, to go on in the next job: those of `runtime` minutes less a
    sixth, at most ten minutes, for starting and saving. Slurm's own end comes with half a minute's notice."""
    seconds = 60 * runtime
    return seconds - min(600, seconds // 6)
