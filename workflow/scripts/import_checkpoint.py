"""Turn a published checkpoint, a folder in Hugging Face's layout, into our weights and our tokenizer's folder.

By hand:
  import_checkpoint.py --checkpoint xlm-roberta-base --run xlm-r-published --out model.safetensors --tokenizer tokenizer

The folder holds config.json, the tokenizer's files, and model.safetensors or pytorch_model.bin, whole or in shards with
their index (model.safetensors.index.json). Of a .bin only tensors are read: one with pickled code is refused. The
weights are stored in fp32, with the token table in the order of our ids; what export_model.py needs to write the same
files again lies in their metadata. Modules that the checkpoint has besides its encoder are taken where the engine has
them: the heads of masked language models and discriminators, the pooler, and heads for classes, tags and answers.
"""

import argparse
import json
import pickle
import re
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from common.errors import UserError, run_main, why_no_file
from common.identity import commit_id, run_hash
from common.yamlfiles import read_resolved
from engine.checkpoint import describe_model, save_weights
from engine.foreign_config import model_of
from engine.from_foreign import from_foreign
from engine.import_tokenizer import import_tokenizer
from engine.shape import ModelConfig

WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")

BROKEN = (  # what a torn or changed pickle raises, besides its own error
    *(RuntimeError, EOFError, AssertionError, ValueError, LookupError, TypeError, AttributeError, OverflowError),
    *(struct.error, MemoryError, OSError),
)


def main() -> None:
    args = parse_arguments()
    torch.set_num_threads(1)
    config, weights_file = read_config(args.checkpoint), find_weights(args.checkpoint)
    model = model_of(config, str(weights_file))
    record, left_out = {"run": args.run}, tuple(args.leave_out)
    if args.run_file:
        record, more = read_run(args.run_file, model, args.checkpoint)
        left_out += more
    tensors = leave_out(read_tensors(weights_file), left_out, weights_file)
    with TemporaryDirectory() as folder:  # a refused import leaves no tokenizer behind
        order = import_tokenizer(args.checkpoint, config, model.vocabulary, Path(folder) / "tokenizer").order
    model, weights, kept = from_foreign(config, tensors, order, str(weights_file), left_out)
    labels = {}
    if kept["head"]:
        classes = len(weights["head.output.weight"])
        named = labels_of(config, kept["head"], classes, args.checkpoint / "config.json")
        labels = {"labels": json.dumps(named)}
    tokenizer = import_tokenizer(args.checkpoint, config, model.vocabulary, args.tokenizer)
    metadata = {
        "format": "pt",
        "model": describe_model(model),
        "commit": commit_id(),
        "vocabulary_sha256": tokenizer.sha256,
        "dtype": "float32",
        "checkpoint": json.dumps(kept),
    }
    metadata |= record | labels
    save_weights(args.out, weights, metadata)
    print(
        f"{args.out}: {len(weights)} weights out of {len(tensors)} tensors of {weights_file} ({kept['dtype']}); "
        f"{config['model_type']}, {', '.join(['encoder', *kept['groups']])}",
        file=sys.stderr,
    )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder in Hugging Face's layout")
    record = parser.add_mutually_exclusive_group(required=True)
    record.add_argument("--run", help="name of the run, for the record")
    record.add_argument("--run-file", type=Path, help="resolved run (YAML); its model must be what config.json says")
    parser.add_argument(
        "--leave-out",
        action="append",
        default=[],
        metavar="PREFIX",
        help="tensors that begin so are not taken: parts that the engine has no place for; can be given repeatedly",
    )
    parser.add_argument("--out", type=Path, required=True, help="model.safetensors to write")
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder of the tokenizer to write")
    return parser.parse_args()


def read_config(folder: Path) -> dict:
    path = folder / "config.json"
    return read_object(path, "give a folder in Hugging Face's layout")


def read_object(path: Path, mend: str) -> dict:
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: no such file; {mend}") from None
    except (RecursionError, ValueError) as error:
        raise UserError(f"{path}: no JSON ({error}); {mend}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected an object of keys, found {type(content).__name__}; {mend}")
    return content


def read_run(path: Path, model: ModelConfig, checkpoint: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """Name and hash of the run, whose model must have the checkpoint's shape, and what it leaves out."""
    run = read_resolved(path)
    for key, said in run.get("model", {}).items():
        if hasattr(model, key) and (found := getattr(model, key)) != said:
            raise UserError(
                f"{path}, model.{key}: {said}, but {checkpoint / 'config.json'} makes it {found}; change the run, or "
                "give its checkpoint"
            )
    left_out = tuple(run.get("source", {}).get("leave_out", []))
    return {"run": run["name"], "run_hash": run_hash(run)[:16]}, left_out


# ---------------------------------------------------------------------------------------------------------------------
# Weights


def find_weights(folder: Path) -> Path:
    """safetensors before pickles, one file before shards, as transformers takes them."""
    for name in WEIGHTS:
        if (folder / name).exists():
            return folder / name
    raise UserError(f"{folder}: no weights; expected {', '.join(WEIGHTS[:-1])} or {WEIGHTS[-1]}")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file, or of the shards of an index. They stay on disk until they are used, where the file
    allows it."""
    if path.suffix != ".json":
        return read_file(path)
    index = read_object(path, "download it again")
    shard_of = index.get("weight_map")
    if not isinstance(shard_of, dict) or not all(isinstance(name, str) for name in shard_of.values()):
        raise UserError(f"{path}, weight_map: expected the file of each tensor; download it again")
    tensors: dict[str, Tensor] = {}
    for shard in sorted(set(shard_of.values())):
        if Path(shard).name != shard or shard in ("", ".."):
            raise UserError(f"{path}, weight_map: {shard!r} is not the name of a file beside it")
        own = read_file(path.with_name(shard))
        missing = sorted(name for name, file in shard_of.items() if file == shard and name not in own)
        if missing or set(own) & set(tensors):
            what = f"lacks {missing[0]}" if missing else f"holds {sorted(set(own) & set(tensors))[0]} once more"
            raise UserError(f"{path.with_name(shard)}: {what}, unlike {path.name}; download both again")
        tensors |= own
    return tensors


def read_file(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise UserError(f"{path}: {why_no_file(path)}; download it again")
    if path.suffix == ".safetensors":
        try:
            with safe_open(path, framework="pt") as file:
                return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: not a whole safetensors file ({error}); download it again") from None
    content = read_pickle(path)
    if not isinstance(content, dict) or not content or not all(is_plain(*item) for item in content.items()):
        raise UserError(f"{path}: expected the state of a model, a name for each tensor and nothing else")
    return content


def read_pickle(path: Path) -> object:
    """Of the tensors alone: no class or function that a pickle names is looked up, let alone called."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip(path))
    except pickle.UnpicklingError as error:
        if code := re.search(r"GLOBAL (\S+)", str(error)):
            raise UserError(
                f"{path}: refused, it holds pickled code ({code[1]}), which could do anything when it is loaded; take "
                "the safetensors of this model, or a file of tensors alone"
            ) from None
        raise UserError(f"{path}: not a whole file of tensors; download it again") from None
    except BROKEN as error:
        said = str(error).split(". ")[0].split("\n")[0] or "it ends too early"
        raise UserError(f"{path}: not a whole file of tensors ({said}); download it again") from None


def is_zip(path: Path) -> bool:
    """Before torch 1.6 files were bare pickles, which have to be read into memory."""
    with open(path, "rb") as file:
        return file.read(4) == b"PK\x03\x04"


def is_plain(name: object, tensor: object) -> bool:
    return isinstance(name, str) and isinstance(tensor, Tensor) and tensor.layout == torch.strided


def leave_out(tensors: dict[str, Tensor], prefixes: Iterable[str], path: Path) -> dict[str, Tensor]:
    for prefix in prefixes:
        if not any(name.startswith(prefix) for name in tensors):
            raise UserError(f"--leave-out {prefix}: no tensor of {path} begins so")
    return {name: tensor for name, tensor in tensors.items() if not name.startswith(tuple(prefixes))}


def labels_of(config: dict, head: str, classes: int, path: Path) -> list[str] | None:
    """Names of the classes in their order; of answers there are none."""
    if head == "question-answering":
        return None
    numbers = [str(number) for number in range(classes)]
    names = config.get("id2label")
    if names is None:
        names = {number: f"LABEL_{number}" for number in numbers}
    if not isinstance(names, dict) or sorted(names) != sorted(numbers):
        raise UserError(f"{path}, id2label: expected a name for each of the {classes} classes, found {names!r}")
    return [str(names[number]) for number in numbers]


if __name__ == "__main__":
    run_main(main)
