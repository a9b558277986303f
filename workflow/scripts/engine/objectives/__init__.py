"""The objectives by the name that a run file uses. A new one is one entry here and one function beside it."""

from engine.objectives import mlm

OBJECTIVES = {
    "mmlm": mlm.MMLM,
    "tlm": mlm.TLM,
}
