"""The language of a line, by a fastText model: ours or lid.176."""

import os
import resource
import signal
from collections.abc import Sequence
from typing import IO

import numpy as np

from common.errors import UserError

SECONDS_TO_READ = 30  # of a processor: lid.176 takes one, and a damaged model may be read without end
_PREFIX = len("__label__")
_ROUNDING = 1e-3  # its own comparison with a least probability is that coarse


def by_number(file: IO) -> str:
    """A path of an open file that is ASCII whatever its name is: fastText takes none that is not UTF-8."""
    return f"/dev/fd/{file.fileno()}"


def killed_by(file: IO) -> str | None:
    """What kills a process that reads this model: a damaged one may break the library itself, which asks nothing of
    what it reads. So a copy of this process tries first."""
    import fasttext

    child = os.fork()
    if not child:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what the C++ library says before it dies
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS_TO_READ, SECONDS_TO_READ + 1))
            fasttext.load_model(by_number(file)).predict(["a"])
        finally:
            os._exit(0)  # what it says in words is said again, and told
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return signal.Signals(-status).name if status < 0 else None


class LanguageId:
    """Language of a line by a fastText model, ours or lid.176."""

    def __init__(self, path: str, candidates: int):
        import fasttext

        with open(path, "rb") as file:
            if killer := killed_by(file):
                what = f"whoever reads it ends in {killer}"
                raise UserError(f"{path}: not a fastText model ({what}); make or download it again")
            try:
                self.model = fasttext.load_model(by_number(file))
            except (ValueError, RuntimeError, MemoryError) as error:
                what = str(error).replace(by_number(file), "it")
                raise UserError(f"{path}: not a fastText model ({what}); make or download it again") from None
        self.candidates = candidates

    def has(self, label: str) -> bool:
        return f"__label__{label}" in self.model.get_labels()

    def predict(self, lines: Sequence[str], least: float = 0.0) -> list[list[tuple[str, float]]]:
        """Of each line (label, probability), best first, of the candidates that reach `least`: fewer are faster."""
        found = self.model.predict([line.replace("\n", " ") for line in lines], self.candidates, least)
        return [
            [(label[_PREFIX:], min(1.0, float(probability))) for label, probability in zip(*candidates, strict=True)]
            for candidates in zip(*found, strict=True)
        ]


def wrong_language(lines: Sequence[str], asked: np.ndarray, model: LanguageId, label: str, share: float) -> np.ndarray:
    """The line's own language has a probability below `share`; only lines `asked` are looked at, the others pass."""
    wrong = np.zeros(len(lines), bool)
    asked = np.flatnonzero(asked)
    predictions = model.predict([lines[i] for i in asked.tolist()], max(0.0, share - _ROUNDING))
    wrong[asked] = [dict(candidates).get(label, 0.0) < share for candidates in predictions]
    return wrong
