"""Candidates for mined pairs: nearest neighbours of each side, scored by the ratio margin (Artetxe and Schwenk 2019).

score(x, y) = cos(x, y) / ((mean of x's k nearest + mean of y's k nearest) / 2)

Shapes: Q queries, M keys, D width, k neighbours.
"""

import torch
from torch import Tensor

from engine.mining import greedy

NEIGHBOURS = 4
BLOCK = 1024  # rows and columns of the similarities that are in memory at once


def neighbours(queries_QD: Tensor, keys_MD: Tensor, k: int = NEIGHBOURS) -> tuple[Tensor, Tensor]:
    """(Q, k) cosines of the nearest keys and their numbers, of equals the lowest first. Vectors of length 1."""
    values, numbers = [], []
    k = min(k, len(keys_MD))
    for q in range(0, len(queries_QD), BLOCK):
        block = queries_QD[q : q + BLOCK]
        best = block.new_full((len(block), 0), 0.0)
        where = torch.zeros((len(block), 0), dtype=torch.int64, device=block.device)
        for m in range(0, len(keys_MD), BLOCK):
            # rounded: a product gives equal vectors unequal last bits, depending on where they stand in it
            cosine = torch.round(block @ keys_MD[m : m + BLOCK].T, decimals=9)
            best = torch.cat([best, cosine], 1)
            columns = torch.arange(m, m + cosine.shape[1], device=block.device).expand(len(block), -1)
            where = torch.cat([where, columns], 1)
            order = best.argsort(dim=1, descending=True, stable=True)[:, :k]
            best, where = best.gather(1, order), where.gather(1, order)
        values.append(best)
        numbers.append(where)
    return torch.cat(values), torch.cat(numbers)


def mined(foreign_QD: Tensor, english_MD: Tensor, k: int = NEIGHBOURS) -> list[tuple[float, int, int]]:
    """(score, foreign, English) by falling score, each sentence once: the best of each x and of each y, greedily."""
    foreign_QD, english_MD = (torch.nn.functional.normalize(one.double(), dim=1) for one in (foreign_QD, english_MD))
    there_Qk, english_Qk = neighbours(foreign_QD, english_MD, k)
    back_Mk, foreign_Mk = neighbours(english_MD, foreign_QD, k)
    mean_Q, mean_M = there_Qk.mean(1), back_Mk.mean(1)
    margin_Qk = there_Qk / ((mean_Q[:, None] + mean_M[english_Qk]) / 2)
    margin_Mk = back_Mk / ((mean_M[:, None] + mean_Q[foreign_Mk]) / 2)
    candidates = set()
    for q, column in enumerate(margin_Qk.argmax(1).tolist()):
        candidates.add((float(margin_Qk[q, column]), q, int(english_Qk[q, column])))
    for m, column in enumerate(margin_Mk.argmax(1).tolist()):
        candidates.add((float(margin_Mk[m, column]), int(foreign_Mk[m, column]), m))
    return greedy(candidates)
