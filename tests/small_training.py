"""The training loop over a few tiny shards, started as users start it."""

import json
import os
import subprocess
from pathlib import Path

import sentencepiece
import torch
from safetensors.torch import load_file

import ready
from engine.shards import read_manifest, sha256_of
from small_corpus import VOCABULARY, write_corpus, write_plan, write_run

SCRIPT = Path(__file__).resolve().parent.parent / "workflow" / "scripts" / "pretrain.py"


def make_corpus(folder: Path) -> Path:
    """Shards, their vocabulary and a plan of sampling."""
    text = " ".join(chr(97 + i) * 2 for i in range(26))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([text] * 20),
        model_prefix=str(folder / "spm"),
        vocab_size=VOCABULARY - 2,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        hard_vocab_limit=False,
        minloglevel=2,
        model_type="char",
    )
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model")).get_piece_size()
    write_corpus(folder / "shards")
    sha = sha256_of(folder / "spm.model")
    for manifest in (folder / "shards").rglob("*.json"):
        content = read_manifest(manifest) | {"vocabulary_sha256": sha, "vocabulary_size": pieces + 2}
        tokens = manifest.with_suffix(".tokens.bin")
        ids = torch.frombuffer(bytearray(tokens.read_bytes()), dtype=torch.uint16).to(torch.int64)
        ids = 4 + (ids - 4) % (pieces - 4)  # into the range of the little vocabulary
        tokens.write_bytes(ids.to(torch.uint16).numpy().tobytes())
        content["files"]["tokens"]["sha256"] = sha256_of(tokens)
        manifest.write_text(json.dumps(content))
    write_plan(folder / "plan.tsv")
    return folder


def command(corpus: Path, folder: Path, *extra: str, launcher: tuple[str, ...] | None = None) -> list[str]:
    paths = {
        "--run-file": folder / "run.yaml",
        "--plan": corpus / "plan.tsv",
        "--shards": corpus / "shards",
        "--vocabulary": corpus / "spm.model",
        "--out": folder / "model.safetensors",
        "--log-json": folder / "train.jsonl",
        "--cost": folder / "cost.json",
    }
    arguments = [str(part) for pair in paths.items() for part in pair]
    return [*(launcher or (ready.python(),)), str(SCRIPT), *arguments, "--seed", "1", *extra]


def train(corpus: Path, folder: Path, **options) -> subprocess.CompletedProcess:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command(corpus, folder, **options), capture_output=True, text=True, env=environment, timeout=300
    )


def trained(corpus: Path, folder: Path, **changes) -> dict[str, torch.Tensor]:
    folder.mkdir(exist_ok=True)
    write_run(folder / "run.yaml", **changes)
    done = train(corpus, folder)
    assert done.returncode == 0, done.stderr
    return load_file(folder / "model.safetensors")


def losses(folder: Path) -> list[float]:
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    return [row[name] for row in rows for name in ("mmlm/loss", "tlm/loss")]
