"""The objectives by the name that a run file uses. A new one is a function beside this file, an entry here and one in
engine/options.py, which says what it reads."""

from engine.objectives import mlm, ppa, rtd, xlco
from engine.objectives.base import Objective

OBJECTIVES: dict[str, Objective] = {
    "mmlm": mlm.MMLM,
    "tlm": mlm.TLM,
    # XLM-E
    "mrtd": rtd.MRTD,
    "trtd": rtd.TRTD,
    # PPA, InfoXLM
    "ppa": ppa.PPA,
    "xlco": xlco.XLCO,
}
