"""The objectives by the name that a run file uses. A new one is a function beside this file, an entry here and one in
engine/options.py, which says what it reads."""

from engine.objectives import (
    btmlm,
    camlm,
    code_switch,
    dwa,
    hictl,
    mlm,
    nsp,
    ppa,
    rtd,
    seq2seq,
    translation,
    unicoder,
    veco,
    xlco,
)
from engine.objectives.base import Objective

OBJECTIVES: dict[str, Objective] = {
    "mmlm": mlm.MMLM,
    "tlm": mlm.TLM,
    # ERNIE-M
    "camlm": camlm.CAMLM,
    "btmlm": btmlm.BTMLM,
    # XLM-E
    "mrtd": rtd.MRTD,
    "trtd": rtd.TRTD,
    # VECO
    "veco-mono": veco.MONO,
    "veco-pairs": veco.PAIRS,
    # PPA, InfoXLM, XLM-Align
    "ppa": ppa.PPA,
    "xlco": xlco.XLCO,
    "dwa": dwa.DWA,
    # the other baselines: mBERT, Unicoder, ALM, HICTL, mBART, mT5
    "nsp": nsp.NSP,
    "word-recovery": unicoder.WORD_RECOVERY,
    "paraphrase": unicoder.PARAPHRASE,
    "cross-lingual-mlm": unicoder.CROSS_LINGUAL_MLM,
    "code-switch": code_switch.CODE_SWITCH,
    "hictl": hictl.HICTL,
    "denoising": seq2seq.DENOISING,
    "spans": seq2seq.SPANS,
    # fine-tuning for translation
    "translation": translation.TRANSLATION,
}
