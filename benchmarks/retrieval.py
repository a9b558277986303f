"""Compare the search for nearest neighbours with faiss's flat index: same vectors, same threads, same process.

Ours is exact to 9 digits of fp64 and rounds the keys anew at every call; faiss's IndexFlatIP holds unit vectors, fp32.
They take turns, and the median of the ratios of queries per second counts: the goal is at least 1. Ours runs at two
counts of queries, so that seconds per query can be told from what a call costs once. faiss is no dependency: without
`pip install faiss-cpu` ours runs alone. Memory is that of the process: before a search, and the largest within it.

    python benchmarks/retrieval.py                                             # about a minute
    python benchmarks/retrieval.py --keys 1000000 --queries 8192 --out benchmarks/results/retrieval.json
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import sys
import threading
import time
from pathlib import Path

import torch
from machine import processor

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "workflow" / "scripts"))

from common.errors import run_main  # noqa: E402
from engine import retrieval  # noqa: E402

try:
    import faiss
except ImportError:
    faiss = None

GOAL = 1.0


def made_up(keys: int, queries: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit keys of random directions, and queries that are each a key with as much noise: a cosine of about 0.7."""
    generator = torch.Generator().manual_seed(1)
    keys_MD = torch.empty(keys, width)
    for block in keys_MD.split(4096):
        block.normal_(generator=generator)
        torch.nn.functional.normalize(block, dim=1, out=block)
    queries_QD = keys_MD[torch.randint(0, keys, (queries,), generator=generator)]
    queries_QD += torch.randn(queries, width, generator=generator) / width**0.5
    return torch.nn.functional.normalize(queries_QD, dim=1), keys_MD


def memory() -> int:
    """Bytes that the process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Peak:
    """The most memory that was held within the block, looked at every 20 ms, beyond what was held before."""

    def __enter__(self):
        self.before = self.most = memory()
        self.done = threading.Event()
        self.watcher = threading.Thread(target=self.watch)
        self.watcher.start()
        return self

    def watch(self) -> None:
        while not self.done.wait(0.02):
            self.most = max(self.most, memory())

    def __exit__(self, *_):
        self.done.set()
        self.watcher.join()


def timed(search, *given) -> tuple[float, object]:
    start = time.perf_counter()
    found = search(*given)
    return time.perf_counter() - start, found


def fp32_rate(width: int) -> float:
    """GFLOP/s of torch's own fp32 product, of blocks as a search has them."""
    left, right = torch.randn(1024, width), torch.randn(2048, width)
    out = torch.empty(1024, 2048)
    seconds = [timed(lambda: [torch.mm(left, right.T, out=out) for _ in range(20)])[0] for _ in range(3)]
    return 20 * 2 * out.numel() * width / statistics.median(seconds) / 1e9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--turns", type=int, default=3, help="of each; medians count (default: %(default)s)")
    parser.add_argument("--faiss-queries", type=int, help="that faiss is given, at most (default: all)")
    parser.add_argument("--extrapolate", type=int, default=100_000, help="queries to say a time for, by the two counts")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    load = os.getloadavg()[0]
    queries_QD, keys_MD = made_up(args.keys, args.queries, args.width)
    few = queries_QD[: args.queries // 2]
    ours, halves, theirs, rates, peaks = [], [], [], [], []
    flat = None
    if faiss:
        faiss.omp_set_num_threads(args.threads)
        asked = queries_QD[: args.faiss_queries].numpy()
        flat = faiss.IndexFlatIP(args.width)
        flat.add(keys_MD.numpy())
        flat.search(asked[:64], args.k)
    retrieval.neighbours(queries_QD[:64], keys_MD[:10_000], args.k)
    for _ in range(args.turns):
        rates.append(fp32_rate(args.width))
        with Peak() as peak:
            seconds, (cosines, numbers) = timed(retrieval.neighbours, queries_QD, keys_MD, args.k)
        ours.append(args.queries / seconds)
        peaks.append(peak.most - peak.before)
        if flat:
            seconds, (products, found) = timed(flat.search, asked, args.k)
            theirs.append(len(asked) / seconds)
        halves.append(len(few) / timed(retrieval.neighbours, few, keys_MD, args.k)[0])
    per_second, rate = statistics.median(ours), statistics.median(rates)
    whole, half = args.queries / max(ours), len(few) / max(halves)  # other work on the machine only adds
    marginal = (whole - half) / (args.queries - len(few))
    flops = 2 * args.keys * args.width * per_second / 1e9
    screens = retrieval._screens(retrieval._side(few[:1]), retrieval._side(keys_MD[:10_000]))
    result = {
        "command": " ".join(["python", "benchmarks/retrieval.py", *sys.argv[1:]]),
        "date": datetime.date.today().isoformat(),
        "processor": processor(),
        "threads": args.threads,
        "load_before": round(load, 2),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "faiss": faiss.__version__ if faiss else "not installed",
        **{key: getattr(args, key) for key in ("keys", "queries", "width", "k", "turns")},
        "screens": [str(one).removeprefix("torch.") for one in screens],
        "load_after": round(os.getloadavg()[0], 2),
        "least_seconds": round(whole, 2),
        "queries_per_second": [round(one, 1) for one in ours],
        "gflop_per_second": round(flops),
        "fp32_matmul_gflop_per_second": round(rate),
        "share_of_fp32_matmul": round(flops / rate, 2),
        "matrices_mib": round((queries_QD.nbytes + keys_MD.nbytes) / 2**20),
        "peak_mib_beyond_matrices": round(max(peaks) / 2**20),
        "half_the_queries": {"queries": len(few), "least_seconds": round(half, 2)},
        "extrapolated": {
            "queries": args.extrapolate,
            # two times that other work disturbed unequally give no slope
            "seconds": round(whole + marginal * (args.extrapolate - args.queries)) if marginal > 0 else None,
            "seconds_at_most": round(args.extrapolate * whole / args.queries),
            "by": "not measured: the least seconds and their difference to those of half the queries; in proportion",
        },
    }
    if flat:
        count = len(asked)
        agree = (numbers[:count] == torch.from_numpy(found)).float().mean()
        result |= {
            "faiss_queries": count,
            "faiss_queries_per_second": [round(one, 1) for one in theirs],
            "ratio": round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 2),
            "same_neighbours": round(float(agree), 6),
            "largest_difference_of_cosines": float((cosines[:count] - torch.from_numpy(products)).abs().max()),
            "goal": GOAL,
        }
    print(json.dumps(result, indent=1))
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if result.get("ratio", GOAL) >= GOAL else 1


if __name__ == "__main__":
    run_main(main)
