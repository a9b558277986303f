"""Every task by its name. Who reads one task alone imports its module, and does not rest on the others."""

from types import ModuleType

from common.errors import UserError
from engine.metrics import Measure
from tasks import (
    bucc,
    conll,
    flores,
    mlqa,
    panx,
    pawsx,
    tatoeba,
    tydiqa,
    ud_pos,
    wmt14_en_de,
    wmt14_en_fr,
    word_alignment,
    xnli,
    xquad,
)

TASKS = {
    "bucc": bucc,
    "conll-ner": conll,
    "flores": flores,
    "mlqa": mlqa,
    "paws-x": pawsx,
    "tatoeba": tatoeba,
    "tydiqa-goldp": tydiqa,
    "ud-pos": ud_pos,
    "wikiann-ner": panx,
    "wmt14-en-de": wmt14_en_de,
    "wmt14-en-fr": wmt14_en_fr,
    "word-alignment": word_alignment,
    "xnli": xnli,
    "xquad": xquad,
}


def task_module(name: str) -> ModuleType:
    if name not in TASKS:
        raise UserError(f"task: {name!r} is unknown; the tasks are {', '.join(sorted(TASKS))}")
    return TASKS[name]


def measure_of(task: str, metric: str) -> Measure:
    metrics = task_module(task).METRICS
    if metric not in metrics:
        raise UserError(f"metric: {task} has no {metric!r}; it has {', '.join(metrics)}")
    return metrics[metric].measure
