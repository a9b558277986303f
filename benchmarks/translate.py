"""Seconds to translate a test set of newstest2014's size: 3,003 sentences, a beam of 5, a network of mini's size.

Two networks, made here: one that was trained to copy its source, so shortly that it has learned little but where that
ends, and one with random weights, which is the worst case: nearly every hypothesis runs to its limit. The goal is 60 s
of each on two threads. They take turns, and the median counts. With --model a real one in their place:

    python benchmarks/translate.py --out benchmarks/results/translate.json                      # some minutes
    python benchmarks/translate.py --model weights.safetensors --spm spm.model --input test-en.txt
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

# A thread that waits for another leaves its core to other work; spinning made this ten times slower on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
import torch.nn.functional as F
from machine import processor

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "workflow" / "scripts"))

from common.errors import UserError, run_main  # noqa: E402
from engine.assembly import Seq2Seq, load_seq2seq  # noqa: E402
from engine.beam import translate_rows  # noqa: E402
from engine.optim import learning_rate  # noqa: E402
from engine.rows import pad, sentence_rows  # noqa: E402
from engine.shape import ModelConfig  # noqa: E402
from engine.tokenizer import BOS, EOS, FIRST_PIECE, PAD, Tokenizer  # noqa: E402

GOAL = 60.0  # seconds
WORDS = 30  # pieces that the made-up sentences consist of
PEAK_LR, WARM_UP = 5e-3, 50


def made_up(sentences: int, lengths: Sequence[int], seed: int) -> list[list[int]]:
    """Sources of random pieces, as long as the mini-world's sentences."""
    rng = torch.Generator().manual_seed(seed)
    sizes = torch.randint(lengths[0], lengths[1] + 1, (sentences,), generator=rng).tolist()
    pieces = torch.randint(FIRST_PIECE, FIRST_PIECE + WORDS, (sum(sizes),), generator=rng).split(sizes)
    return [[BOS, *own.tolist(), EOS] for own in pieces]


def untrained(arguments: argparse.Namespace) -> Seq2Seq:
    shape = (arguments.layers, arguments.width, arguments.heads, 4 * arguments.width, arguments.positions)
    torch.manual_seed(1)
    config = ModelConfig(*shape, arguments.vocabulary, dropout=0.0, attention_dropout=0.0, init_std=0.07)
    return Seq2Seq(config, arguments.decoder_layers)


def taught_to_copy(arguments: argparse.Namespace) -> Seq2Seq:
    model = untrained(arguments).to(arguments.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), fused=True)
    for step in range(1, arguments.copy_steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, PEAK_LR, WARM_UP, arguments.copy_steps)
        rows = made_up(64, arguments.lengths, seed=1 + step)
        source_BS, real_BS = pad(rows, arguments.device)
        read_BT, _ = pad([[EOS, *row[1:-1]] for row in rows], arguments.device)
        said_BT, _ = pad([row[1:] for row in rows], arguments.device)
        logits = model.logits(model(source_BS, real_BS, read_BT)[read_BT != PAD])
        optimizer.zero_grad()
        F.cross_entropy(logits, said_BT[said_BT != PAD]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model


def translated(model: Seq2Seq, rows: list[list[int]], arguments: argparse.Namespace) -> tuple[float, list[list[int]]]:
    """Seconds, and translations: lists, so a device has finished too."""
    start = time.perf_counter()
    found = translate_rows(model, rows, arguments.beam, batch_rows=arguments.batch_rows, device=arguments.device)
    return time.perf_counter() - start, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=3003)
    parser.add_argument("--lengths", type=int, nargs=2, default=(6, 14), help="fewest and most pieces of a sentence")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--decoder-layers", type=int, default=1)
    parser.add_argument("--width", type=int, default=64, help="the FFN has four times as much")
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--positions", type=int, default=66)
    parser.add_argument("--vocabulary", type=int, default=2500)
    parser.add_argument("--copy-steps", type=int, default=300, help="of training, before the clock runs")
    parser.add_argument("--model", type=Path, help="weights of a real translation model; needs --spm and --input")
    parser.add_argument("--spm", type=Path, help="its vocabulary")
    parser.add_argument("--input", type=Path, help="text to translate, one sentence a line")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--batch-rows", type=int, default=64, help="sentences at a time")
    parser.add_argument("--turns", type=int, default=3, help="of each network (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    load = os.getloadavg()[0]
    if arguments.model:
        if not (arguments.spm and arguments.input):
            raise UserError("--model needs --spm and --input")
        model, _ = load_seq2seq(arguments.model)
        models = {"given": model}
        lines = arguments.input.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        rows = sentence_rows(Tokenizer(arguments.spm), lines, model.encoder.config.positions - 2)
        about = {"model": str(arguments.model), "input": str(arguments.input)}
    else:
        models = {"ends in time": taught_to_copy(arguments), "untrained": untrained(arguments)}
        rows = made_up(arguments.sentences, arguments.lengths, seed=1)
        shape = ("lengths", "layers", "decoder_layers", "width", "heads", "positions", "vocabulary", "copy_steps")
        about = {key: getattr(arguments, key) for key in shape}
    seconds: dict[str, list[float]] = {name: [] for name in models}
    outputs: dict[str, list[list[int]]] = {}
    for model in models.values():
        translated(model.to(arguments.device), rows[:128], arguments)  # warms up
    for _ in range(arguments.turns):
        for name, model in models.items():
            spent, outputs[name] = translated(model, rows, arguments)
            seconds[name].append(spent)
    result = {
        "command": " ".join(["python", "benchmarks/translate.py", *sys.argv[1:]]),
        "date": datetime.date.today().isoformat(),
        "processor": processor(),
        "device": torch.cuda.get_device_name() if arguments.device.startswith("cuda") else arguments.device,
        "threads": arguments.threads,
        "load_before": round(load, 2),
        "load_after": round(os.getloadavg()[0], 2),
        "torch": torch.__version__,
        "python": platform.python_version(),
        **about,
        "sentences": len(rows),
        "beam": arguments.beam,
        "batch_rows": arguments.batch_rows,
        "pieces_of_a_source": round(statistics.mean(len(row) - 2 for row in rows), 1),
        "networks": {name: told(seconds[name], outputs[name]) for name in models},
        "goal_seconds": None if arguments.model else GOAL,
    }
    print(json.dumps(result, indent=1))
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if arguments.model or all(statistics.median(own) <= GOAL for own in seconds.values()) else 1


def told(seconds: list[float], outputs: list[list[int]]) -> dict[str, list[float] | float]:
    return {
        "seconds": [round(one, 1) for one in seconds],
        "least_seconds": round(min(seconds), 1),  # other work on the machine only adds
        "sentences_per_second": round(len(outputs) / statistics.median(seconds)),
        "pieces_of_a_translation": round(statistics.mean(map(len, outputs)), 1),
    }


if __name__ == "__main__":
    run_main(main)
