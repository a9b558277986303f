"""Random ErnieM checkpoints and what transformers computes with them, for test_import.py.

Runs under PYTHONPATH=.venv/ernie-m, whose transformers still has ErnieM, and imports nothing of ours:
  python tests/ernie_m.py INPUTS.safetensors OUT NAME ...
OUT/<NAME> is a checkpoint (.bin for ErnieMModel), OUT/<NAME>.safetensors what comes out of it.
"""

import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

SHAPE = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 96}


def main(inputs: Path, out: Path, names: list[str]) -> None:
    given = load_file(inputs)
    for seed, name in enumerate(names):
        torch.manual_seed(seed)
        config = transformers.ErnieMConfig(vocab_size=60, max_position_embeddings=40, num_labels=3, **SHAPE)
        if name.endswith("ForQuestionAnswering"):
            config.num_labels = 2
        model = getattr(transformers, name)(config).eval()
        with torch.no_grad():
            for weight in model.parameters():
                scale, centre = (0.15, 0) if weight.dim() > 1 else (0.2, (weight == 1).float())
                weight.copy_(centre + scale * torch.randn_like(weight))
            found = model(given["tokens"], attention_mask=given["real"], output_hidden_states=True)
        model.save_pretrained(out / name, safe_serialization=name != "ErnieMModel")
        tensors = {f"states.{layer}": states for layer, states in enumerate(found.hidden_states)}
        tensors |= {key: found[key] for key in found if isinstance(found[key], torch.Tensor)}
        save_file({key: tensor.clone().contiguous() for key, tensor in tensors.items()}, out / f"{name}.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
