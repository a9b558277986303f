"""Nearest neighbours by cosine, exact at every size, and mined pairs scored by the ratio margin.

score(x, y) = cos(x, y) / ((mean of x's k nearest + mean of y's k nearest) / 2)     (Artetxe and Schwenk 2019)

A cosine is that of fp64, rounded to 9 digits: equal vectors get equal cosines, and of these the lowest number is first.
To multiply all in fp64 would be slow, so a search narrows down, and proves query by query that nothing was lost:

1. Screen: all products in bf16 (where the CPU multiplies it in tiles), else in fp32. Of GROUP keys only the largest
   product is looked at, and a query keeps its `kept` best groups.
2. Refine: the keys of the kept groups in fp32, then the few best of them in fp64.
3. Proof: rounding moves a product by no more than a bound, which `Screen` adds up. A query whose k-th cosine does not
   stand above all that was left out, by that bound, goes to the next screen, and at last through all keys in fp64.

Memory, besides the two matrices, which are neither copied nor changed: 16 bytes a neighbour, 8 bytes a vector (its
length), 10 or 12 bytes a kept group (4 k + 8 a query), and blocks of fixed numbers of rows, 0.7 GiB at width 768.

Shapes: Q queries, M keys, D width, k neighbours, K kept groups of G keys, N of them that are read, n at once.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from engine.mining import greedy

NEIGHBOURS = 4
BLOCK = 1024  # queries that are multiplied at once, with twice as many keys
GROUP = 16  # keys that are looked at through the largest of their products
LOADED = 64  # blocks of keys that are rounded for a screen before the queries pass by
COPIED = 32768  # queries
FEW_KEYS = 4096  # so few are compared in fp64 at once
SHORTEST, LONGEST = 1e-9, 1e9  # the lengths of which fp32 products are trusted
SLACK = 2e-9  # what the rounding to 9 digits may move, twice
LAST = 2**32 - 1


class Side(NamedTuple):
    vectors: Tensor  # (rows, D), of any length
    inverse: Tensor  # (rows,) fp64, 1 / length; a zero vector has cosine 0 with all

    def units(self, first: int, last: int) -> Tensor:
        return self.vectors[first:last].double() * self.inverse[first:last, None]


@torch.no_grad()
def neighbours(queries_QD: Tensor, keys_MD: Tensor, k: int = NEIGHBOURS) -> tuple[Tensor, Tensor]:
    """(Q, k) cosines of the nearest keys, fp64, and their numbers, of equals the lowest first; fewer if keys are."""
    return _neighbours(_side(queries_QD), _side(keys_MD), k)


@torch.no_grad()
def nearest(queries_QD: Tensor, keys_KD: Tensor, block: int | None = None) -> tuple[list[int], list[int]]:
    """Nearest key of each query and nearest query of each key by cosine; of equals, the lowest number."""
    queries, keys = _side(queries_QD), _side(keys_KD)
    there, back = _neighbours(queries, keys, 1, block)[1], _neighbours(keys, queries, 1, block)[1]
    return there[:, 0].tolist(), back[:, 0].tolist()


@torch.no_grad()
def mined(foreign_QD: Tensor, english_MD: Tensor, k: int = NEIGHBOURS) -> list[tuple[float, int, int]]:
    """(score, foreign, English) by falling score, each sentence once: the best of each x and of each y, greedily.

    A vector without direction has no margin, nor have two whose neighbours lie at 90 degrees or more on average.
    """
    if not len(foreign_QD) or not len(english_MD):
        return []
    foreign, english = _side(foreign_QD), _side(english_MD)
    there_Qk, english_Qk = _neighbours(foreign, english, k)
    back_Mk, foreign_Mk = _neighbours(english, foreign, k)
    mean_Q, mean_M = there_Qk.mean(1), back_Mk.mean(1)
    scale_Qk = (mean_Q[:, None] + mean_M[english_Qk]) / 2
    scale_Mk = (mean_M[:, None] + mean_Q[foreign_Mk]) / 2
    margin_Qk = (there_Qk / scale_Qk).masked_fill(scale_Qk <= 0, -torch.inf)
    margin_Mk = (back_Mk / scale_Mk).masked_fill(scale_Mk <= 0, -torch.inf)
    candidates = set()
    for margins, own_is_foreign, others in ((margin_Qk, True, english_Qk), (margin_Mk, False, foreign_Mk)):
        margins = margins.nan_to_num(nan=-torch.inf, posinf=-torch.inf, neginf=-torch.inf)
        column = margins.argmax(1, keepdim=True)
        scores, numbers = margins.gather(1, column)[:, 0].tolist(), others.gather(1, column)[:, 0].tolist()
        for own, (score, other) in enumerate(zip(scores, numbers, strict=True)):
            if score > -torch.inf:
                candidates.add((score, own, other) if own_is_foreign else (score, other, own))
    return greedy(candidates)


def _side(vectors: Tensor) -> Side:
    # one buffer: fp64 blocks that come and go leave holes in the heap, in the end as large as the matrix in fp64
    buffer = torch.empty((BLOCK, vectors.shape[1]), dtype=torch.float64, device=vectors.device)
    lengths = torch.empty(len(vectors), dtype=torch.float64, device=vectors.device)
    for first in range(0, len(vectors), BLOCK):
        block = vectors[first : first + BLOCK]
        lengths[first : first + BLOCK] = torch.linalg.vector_norm(buffer[: len(block)].copy_(block), dim=1)
    return Side(vectors, 1 / lengths.clamp(min=1e-12))


def _neighbours(queries: Side, keys: Side, k: int, block: int | None = None) -> tuple[Tensor, Tensor]:
    block, k = block or BLOCK, min(k, len(keys.vectors))
    ranks_Qk = torch.empty((len(queries.vectors), k), dtype=torch.int64, device=queries.vectors.device)
    open_ = torch.arange(len(queries.vectors), device=queries.vectors.device)
    for dtype in _screens(queries, keys):
        left = []
        # all at once, or copies of some of those that a coarser screen left
        for some in (open_,) if len(open_) == len(ranks_Qk) else open_.split(COPIED):
            asked = queries if len(some) == len(ranks_Qk) else Side(*(one[some] for one in queries))
            if len(some):
                found, proven = Screen(keys, k, dtype, block).search(asked)
                ranks_Qk[some[proven]] = found[proven]
                left.append(some[~proven])
        open_ = torch.cat([open_[:0], *left])
    for few in open_.split(block) if len(open_) else ():
        ranks_Qk[few] = _exhaustive(Side(*(one[few] for one in queries)), keys, k, block)
    return _cosines(ranks_Qk), LAST - (ranks_Qk & LAST)


def _screens(queries: Side, keys: Side) -> list[torch.dtype]:
    if len(keys.vectors) <= FEW_KEYS or torch.get_float32_matmul_precision() != "highest":
        return []
    for _, inverse in (queries, keys):
        # a zero vector's inverse is that of the clamp
        if ((inverse > 1 / SHORTEST) & (inverse != 1e12) | (inverse < 1 / LONGEST)).any():
            return []
    tiles = keys.vectors.device.type == "cpu" and torch.cpu._is_amx_tile_supported()
    return [torch.bfloat16, torch.float32] if tiles else [torch.float32]


def _ranks(rounded: Tensor, numbers: Tensor) -> Tensor:
    """Of cosines times 1e9. No two are alike: a larger one is a larger cosine or, of equals, a lower number."""
    return (rounded.long() << 32) + (LAST - numbers)


def _cosines(ranks: Tensor) -> Tensor:
    return (ranks >> 32).double() / 1e9


def _exhaustive(queries: Side, keys: Side, k: int, block: int) -> Tensor:
    """(Q, k) ranks of the nearest, by the definition."""
    units_QD = queries.units(0, len(queries.vectors))
    best = torch.empty((len(units_QD), 0), dtype=torch.int64, device=units_QD.device)
    for first in range(0, len(keys.vectors), block):
        rounded = (units_QD @ keys.units(first, first + block).T).mul_(1e9).round_()
        if k == 1:  # argmax gives the first of equals, sooner
            places = rounded.argmax(1, keepdim=True)
            ranks = _ranks(rounded.gather(1, places), first + places)
        else:
            ranks = _ranks(rounded, torch.arange(first, first + rounded.shape[1], device=best.device))
        best = torch.cat([best, ranks], 1)
        best = best.topk(min(k, best.shape[1]), dim=1).values
    return best


@dataclass
class Screen:
    """Finds the nearest keys of most queries with rounded products, and says of which it is certain.

    The keys are taken as unit vectors less a common centre c, which moves all products of one query alike: where all
    sentences resemble each other, the products, and so their rounding, become small.
    """

    keys: Side
    k: int
    dtype: torch.dtype
    block: int

    def __post_init__(self):
        self.width = self.keys.vectors.shape[1]
        self.columns = max(1, 2 * self.block // GROUP) * GROUP
        self.kept = 4 * self.k + 8
        self.steps = torch.arange(GROUP, device=self.keys.vectors.device)
        sample = slice(None, None, max(1, len(self.keys.vectors) // 4096))
        self.centre = Side(*(one[sample] for one in self.keys)).units(0, 8192).mean(0).float()
        self.key_length = self.key_rounding = 0.0  # the largest of all keys, known when they have been rounded

    def search(self, queries: Side) -> tuple[Tensor, Tensor]:
        """(Q, k) ranks and (Q,) whether they are proven."""
        product_QK, first_QK = self._best_groups(queries)
        found, proven = [], []
        for rows in torch.arange(len(product_QK), device=product_QK.device).split(self.block):
            asked = Side(*(one[rows] for one in queries))
            ranks, sure = self._refined(asked, product_QK[rows].double(), first_QK[rows])
            found.append(ranks)
            proven.append(sure)
        return torch.cat(found), torch.cat(proven)

    def _rounded(self, side: Side, first: int, last: int, centre: Tensor | float = 0.0):
        """Unit vectors less the centre in the screen's type, their lengths, and by how much rounding displaced them."""
        exact = side.vectors[first:last].float() * side.inverse[first:last, None].float()
        exact -= centre
        rounded = exact.to(self.dtype)
        lengths = torch.linalg.vector_norm(exact, dim=1)
        return rounded, lengths, torch.linalg.vector_norm(exact - rounded, dim=1) + 8 * 2**-24

    def _best_groups(self, queries: Side) -> tuple[Tensor, Tensor]:
        """(Q, kept) largest products of the best groups, and the first keys of these groups."""
        device = queries.vectors.device
        product_QK = torch.full((len(queries.vectors), self.kept), -torch.inf, dtype=self.dtype, device=device)
        first_QK = torch.zeros(product_QK.shape, dtype=torch.int64, device=device)
        product = torch.empty((self.block, self.columns), dtype=self.dtype, device=device)
        count, columns, groups = len(self.keys.vectors), self.columns, self.columns // GROUP
        for start in range(0, count, LOADED * columns):
            loaded = min(LOADED * columns, count - start)
            keys = torch.zeros(
                (-(-loaded // columns) * columns, queries.vectors.shape[1]), dtype=self.dtype, device=device
            )
            for first in range(0, loaded, columns):
                last = min(first + columns, loaded)
                keys[first:last], lengths, displaced = self._rounded(
                    self.keys, start + first, start + last, self.centre
                )
                self.key_length = max(self.key_length, float(lengths.max()))
                self.key_rounding = max(self.key_rounding, float(displaced.max()))
            # where a group begins: it goes on in steps of `groups`, so that its maximum is one of whole rows
            begins = torch.arange(start, start + len(keys), columns, device=device)[:, None]
            begins = (begins + torch.arange(groups, device=device)).flatten()
            for q in range(0, len(product_QK), self.block):
                block, _, _ = self._rounded(queries, q, q + self.block)
                out = product[: len(block)]
                largest = [product_QK[q : q + self.block]]
                for first in range(0, len(keys), columns):
                    torch.mm(block, keys[first : first + columns].T, out=out)
                    out[:, max(0, loaded - first) :] = -torch.inf
                    largest.append(out.view(len(block), GROUP, groups).amax(1))
                best = torch.cat(largest, 1).topk(self.kept, dim=1, sorted=False)
                known = first_QK[q : q + self.block].gather(1, best.indices.clamp(max=self.kept - 1))
                new = begins[(best.indices - self.kept).clamp(min=0)]
                first_QK[q : q + self.block] = torch.where(best.indices < self.kept, known, new)
                product_QK[q : q + self.block] = best.values
        return product_QK, first_QK

    def _refined(self, queries: Side, product_QK: Tensor, first_QK: Tensor) -> tuple[Tensor, Tensor]:
        """The nearest keys of the kept groups: (Q, k) ranks, and (Q,) whether no other key can be among them."""
        found = product_QK > -torch.inf
        product_QK = product_QK.where(found, -8.0)  # below all products
        _, length_Q, displaced_Q = self._rounded(queries, 0, len(product_QK))
        # what the rounding of factors, of their sum on its way, and of the sum can do to one product
        longest = self.key_length + self.key_rounding
        error_Q = displaced_Q * longest + (length_Q + displaced_Q) * self.key_rounding
        error_Q = 1.001 * error_Q + (length_Q + displaced_Q) * longest * (self.width + 8) * 2**-23
        last_bit = 2**-8 * 1.01 if self.dtype == torch.bfloat16 else 0
        error_QK = error_Q[:, None].double() + SLACK + last_bit * product_QK.abs()
        most_QK, least_QK = product_QK + error_QK, product_QK - error_QK

        # a group that lies below k others for certain is not read
        read_QK = found & (most_QK >= least_QK.topk(self.k, dim=1).values[:, -1:])
        query_N, place_N = read_QK.nonzero(as_tuple=True)
        cosine_QKG = torch.full((*read_QK.shape, GROUP), -8.0, device=product_QK.device)
        number_NG = first_QK[query_N, place_N][:, None] + self.columns // GROUP * self.steps
        for few in torch.arange(len(query_N), device=query_N.device).split(2 * self.block):
            number_nG = number_NG[few].clamp(max=len(self.keys.vectors) - 1)
            keys_nGD = self.keys.vectors[number_nG].float()
            cosine_nG = torch.bmm(keys_nGD, queries.vectors[query_N[few], :, None].float())[:, :, 0]
            cosine_nG *= (self.keys.inverse[number_nG] * queries.inverse[query_N[few], None]).float()
            cosine_QKG[query_N[few], place_N[few]] = cosine_nG.where(number_nG == number_NG[few], -8.0)
        best = cosine_QKG.flatten(1).topk(min(2 * self.k + 8, read_QK.shape[1] * GROUP), dim=1)
        error = (self.width + 16) * 2**-24 * 1.01 + SLACK
        sure_Q = best.values[:, -1] + error < best.values[:, self.k - 1] - error

        first_QN = first_QK.gather(1, best.indices // GROUP)
        number_QN = first_QN + best.indices % GROUP * (self.columns // GROUP)
        real_QN = best.values > -4
        number_QN = number_QN.where(real_QN, 0)
        rank_QN = torch.empty_like(number_QN)
        units_QD = queries.units(0, len(product_QK))
        for column in range(number_QN.shape[1]):
            numbers = number_QN[:, column]
            keys_QD = self.keys.vectors[numbers].double() * self.keys.inverse[numbers, None]
            rank_QN[:, column] = _ranks(((units_QD * keys_QD).sum(1) * 1e9).round_(), numbers)
        rank_QN[~real_QN] = torch.iinfo(torch.int64).min
        rank_Qk = rank_QN.topk(self.k, dim=1).values
        left_out_Q = most_QK.gather(1, product_QK.argmin(1, keepdim=True))[:, 0] + units_QD @ self.centre.double()
        return rank_Qk, sure_Q & (left_out_Q < _cosines(rank_Qk[:, -1]))
