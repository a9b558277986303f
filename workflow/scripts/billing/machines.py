"""Machines: what they cost, and how fast they are, as measured here or as a file says."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path

from common.errors import UserError
from common.yamlfiles import did_you_mean, read_yaml
from plan.config import Config
from plan.schemas import check_schema

MACHINES = "config/machines.yaml"


@dataclass(frozen=True)
class Rate:
    """Floating-point operations per second of one device in a training, and where the number is from."""

    by_precision: dict[str, float]
    source: str
    machine: str
    memory: float  # bytes of one device

    @property
    def words(self) -> str:
        def rate_words(rate: float) -> str:
            return f"{rate / 1e12:.4g} TFLOP/s" if rate >= 1e12 else f"{rate / 1e9:.4g} GFLOP/s"

        rates = {rate_words(rate) for rate in self.by_precision.values()}
        if len(rates) == 1:
            return f"{rates.pop()} a device, {self.source}"
        each = " and ".join(f"{rate_words(rate)} in {key}" for key, rate in sorted(self.by_precision.items()))
        return f"{each} a device, {self.source}"

    def of(self, precision: str, what: str) -> float:
        if precision not in self.by_precision:
            raise UserError(
                f"{MACHINES}, machines.{self.machine}.peak: no {precision}, in which {what} computes; choose another "
                "machine, or give --flops-per-second"
            )
        return self.by_precision[precision]


def load_machines(root: Path) -> dict:
    content = read_yaml(root / MACHINES, MACHINES)
    check_schema(root, content, "machines", MACHINES)
    for kind, name in content["default"].items():
        if name not in content["machines"]:
            raise UserError(
                f"{MACHINES}, default.{kind}: '{name}' is unknown; {did_you_mean(name, content['machines'])}"
            )
    return content


def choose_rate(
    config: Config, machines: dict, name: str | None, utilisation: float | None, flops_per_second: float | None
) -> Rate:
    """The given rate; else that of the named machine; else what earlier trainings of this scale reached; else that of
    the default machine."""
    known = machines["machines"]
    if name is not None and name not in known:
        raise UserError(f"--machine: '{name}' is unknown; {did_you_mean(name, known)}")
    chosen = name or machines["default"]["gpu" if asks_for_gpus(config) else "cpu"]
    machine = known[chosen]
    if flops_per_second is not None:
        if flops_per_second <= 0:
            raise UserError(f"--flops-per-second: {flops_per_second:g} is no rate; give a positive number, as 2e14")
        return Rate(dict.fromkeys(("bf16", "fp32"), flops_per_second), "given", chosen, machine["memory"])
    share = machine["utilisation"] if utilisation is None else utilisation
    if not 0 < share <= 1:
        raise UserError(f"--utilisation: {share:g} is not between 0 and 1")
    rates = {precision: share * peak for precision, peak in machine["peak"].items()}
    if name is None and utilisation is None and (found := measured_rate(config)):
        measured, source = found
        if machine["device"] == "cpu":  # which has no rate of its own for bf16
            rates = dict.fromkeys(("bf16", "fp32"), max(measured.values()))
        other = " and ".join([*sorted(rates.keys() - measured.keys()), "memory"] if machine["device"] == "gpu" else [])
        source += f"; {other} as of {machine['name']} (assumed)" if other else ""
        return Rate(rates | measured, source, chosen, machine["memory"])
    if not rates:
        raise UserError(
            f"{MACHINES}, machines.{chosen}.peak: no FLOP/s; write the rates of its precisions there, or give "
            "--flops-per-second"
        )
    return Rate(rates, f"{share:.0%} of the peak of {machine['name']} (assumed)", chosen, machine["memory"])


def asks_for_gpus(config: Config) -> bool:
    return any(own.get("gpu", 0) for own in config.scale.get("resources", {}).values())


def measured_rate(config: Config) -> tuple[dict[str, float], str] | None:
    """Per device and by precision, the median over the finished trainings of this scale; on the commonest kind of
    device."""
    found: dict[str, list[tuple[str, float]]] = {}
    for kind in ("runs/*", "translators/*/*/*"):
        for path in sorted((config.root / f"results/{config.scale_name}").glob(f"{kind}/seed-*/cost.json")):
            try:
                content = json.loads(path.read_text(encoding="utf-8"))
                if content["flops_per_second"]:
                    rate = content["flops_per_second"] / content["world_size"]
                    run = read_yaml(path.parent.parent / "run.yaml", path.parent.parent / "run.yaml")
                    found.setdefault(content["device"], []).append((run.get("precision", "fp32"), rate))
            except (ValueError, KeyError, TypeError):
                raise UserError(f"{path}: not the cost of a training; delete it and train again") from None
    if not found:
        return None
    device, rates = max(found.items(), key=lambda item: (len(item[1]), item[0]))
    medians = {
        precision: statistics.median(rate for own, rate in rates if own == precision)
        for precision in sorted({own for own, _ in rates})
    }
    return medians, f"measured in {len(rates)} trainings of this scale on {device}"
