"""Write one finished model as a Hugging Face folder: config.json, weights, tokenizer files and a model card.

What XLM-R's layout can hold is written in it, and an imported checkpoint as it came, bit for bit. Gated distances,
embeddings of languages, residuals of learned size and translation models go with a modelling file of ours
(hub/modeling_parallax*.py), which transformers reads with trust_remote_code=True. docs/exports.md says which is which.

  export_model.py --model results/mini/runs/xlm/seed-1/model.safetensors --vocabulary results/mini/vocab/spm.model \\
      --run-file results/mini/runs/xlm/run.yaml --cost results/mini/runs/xlm/seed-1/cost.json --out exported

The folder is written whole or not at all, and must not be there before.
"""

import argparse
import json
import shutil
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from common.atomic import atomic_folder, write_json, write_text
from common.errors import UserError, run_main
from common.identity import run_hash
from common.yamlfiles import read_yaml
from engine.checkpoint import described_model, load_weights, save_weights
from engine.formats import FORMATS
from engine.model import FIRST_POSITION
from engine.prenorm import PreNormConfig
from engine.shape import ModelConfig
from engine.to_foreign import own_layout, to_foreign
from engine.tokenizer import BOS, EOS, PAD, Imported, Tokenizer, load_tokenizer
from engine.tokenizer_files import write_hugging_face_tokenizer
from plan.datasets import DATASETS_TSV
from report.model_card import Exported, model_card
from tasks.recipe import Recipe, load_recipe

HUB = Path(__file__).parent / "hub"
TOKENS = ("encoder.tokens.weight", "mlm_head.bias")  # a row of each id
AUTO_CLASSES = {
    "AutoModel": "ParallaxModel",
    "AutoModelForMaskedLM": "ParallaxForMaskedLM",
    "AutoModelForPreTraining": "ParallaxForPreTraining",
    "AutoModelForSequenceClassification": "ParallaxForSequenceClassification",
    "AutoModelForTokenClassification": "ParallaxForTokenClassification",
    "AutoModelForQuestionAnswering": "ParallaxForQuestionAnswering",
}
TOKENIZERS = {
    "bert": "BertTokenizer",
    "electra": "ElectraTokenizer",
    "ernie_m": "ErnieMTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
}
TRANSLATION = "AutoModelForSeq2SeqLM"
HEADS = {
    "classification": "AutoModelForSequenceClassification",
    "tagging": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
}


@dataclass(frozen=True)
class Source:
    """A weights file of ours, read and checked."""

    path: Path
    weights: dict[str, Tensor]
    metadata: dict[str, str]
    model: ModelConfig | PreNormConfig
    tokenizer: Tokenizer

    @property
    def modules(self) -> set[str]:
        return {name.partition(".")[0] for name in self.weights}

    @property
    def kept(self) -> dict | None:
        """What import_checkpoint.py kept of the checkpoint that the weights were, for the way back."""
        return json.loads(self.metadata["checkpoint"]) if "checkpoint" in self.metadata else None

    @property
    def is_untouched(self) -> bool:
        """A checkpoint as it was imported: it goes back as it came."""
        return self.kept is not None and "task" not in self.metadata

    def only(self, modules: set[str]) -> dict[str, Tensor]:
        return {name: tensor for name, tensor in self.weights.items() if name.partition(".")[0] in modules}


def main() -> None:
    args = parse_arguments()
    if args.out.exists():
        raise UserError(f"{args.out}: is there already; remove it, or give another folder")
    source = read_source(args.model, args.vocabulary)
    check_run(source, args.run_file)
    recipe = load_recipe(args.recipe) if args.recipe else None
    try:
        kind = head_kind(source)
        modules = modules_to_write(source, kind)
        config, tensors, auto_class = in_layout(source, source.only(modules), kind)
    except UserError as error:
        raise UserError(f"{args.model}: {error}") from None
    left_out = tuple(sorted(source.modules - modules))
    exported = Exported(
        source.metadata,
        source.model,
        config,
        auto_class,
        left_out,
        source.tokenizer.sha256,
        tokenizer_kind=source.tokenizer.layout.kind if isinstance(source.tokenizer, Imported) else "sentencepiece",
        dtype=str(Counter(tensor.dtype for tensor in tensors.values()).most_common(1)[0][0]).removeprefix("torch."),
    )
    card = model_card(exported, args)
    with atomic_folder(args.out) as folder:
        write_text(folder / "README.md", card)
        write_json(folder / "config.json", config)
        save_weights(folder / "model.safetensors", tensors, {"format": "pt"})
        if auto_class == TRANSLATION:
            write_json(folder / "generation_config.json", search_of(source, recipe))
        for name in modelling_files(config):
            shutil.copyfile(HUB / name, folder / name)
        write_tokenizer(source, folder, config["model_type"])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, type=Path, help="model.safetensors of a run, fine-tuned or not")
    parser.add_argument("--vocabulary", required=True, type=Path, help="its SentencePiece file or tokenizer folder")
    parser.add_argument("--out", required=True, type=Path, help="folder to write; must not be there")
    card = parser.add_argument_group("for the model card")
    card.add_argument("--run-file", type=Path, help="resolved run (run.yaml), of the data and the method")
    card.add_argument("--before", type=Path, nargs="*", default=[], help="run.yaml of the runs that it started from")
    card.add_argument("--recipe", type=Path, help="resolved recipe of the task that it was fine-tuned on")
    card.add_argument("--cost", type=Path, nargs="?", help="cost.json of the training")
    card.add_argument("--scale", type=Path, help="config/scales/<scale>.yaml that it was made at")
    card.add_argument("--scores", type=Path, nargs="*", default=[], help="score files of this model")
    card.add_argument("--datasets", default=DATASETS_TSV, help="table of sources, for licences (default: %(default)s)")
    return parser.parse_args()


def read_source(path: Path, vocabulary: Path) -> Source:
    weights, metadata = load_weights(path)
    if "model" not in metadata:
        raise UserError(f"{path}: the file does not describe its model (no `model` in its metadata); train it again")
    if not vocabulary.exists():
        raise UserError(f"{vocabulary}: no such vocabulary; give the file or folder that {path} was trained with")
    tokenizer = load_tokenizer(vocabulary)
    expected = metadata.get("vocabulary_sha256")
    if expected and expected != tokenizer.sha256:
        raise UserError(
            f"{vocabulary}: not the vocabulary that {path} was trained with (sha256 {tokenizer.sha256}, not {expected})"
        )
    model = described_model(metadata, path)
    if model.vocabulary != tokenizer.vocabulary_size:
        raise UserError(f"{vocabulary}: has {tokenizer.vocabulary_size} ids, and {path} {model.vocabulary}")
    return Source(path, weights, metadata, model, tokenizer)


def check_run(source: Source, path: Path | None) -> None:
    """A card tells of the data and the method that the run file names: it must be that of these weights, resolved."""
    values = read_yaml(path, str(path)) if path else {}
    name, own = values.get("name"), source.metadata.get("run")
    if name and own and name != own:
        raise UserError(f"{path}: is run {name}, but {source.path} is of run {own}; give its run file")
    known = source.metadata.get("run_hash")
    if name and known and known != (found := values.get("run_hash") or run_hash(values)[:16]):
        raise UserError(
            f"{path}: is not what {source.path} was trained by (run_hash {found}, the weights say {known}); give the "
            "run.yaml in its folder of results/<scale>/runs/"
        )


def modules_to_write(source: Source, kind: str | None) -> set[str]:
    """A decoder goes with its encoder, a head of a task alone with it; else what the layout knows."""
    if "decoder" in source.modules:
        known = {"decoder", "mlm_head"}
    elif kind:
        known = {"head"}
    elif source.is_untouched:
        known = {"head", *FORMATS[source.kept["format"]].groups}
    elif needs_own_layout(source.model):
        known = {"mlm_head"} if "mlm_head" in source.modules else {"discriminator_head"}
    else:
        known = {"mlm_head", "pooler"}
    return source.modules & {"encoder", *known}


def in_layout(source: Source, weights: dict[str, Tensor], kind: str | None) -> tuple[dict, dict[str, Tensor], str]:
    """config.json, the tensors, and the class of transformers that reads them, for example AutoModelForMaskedLM."""
    if "decoder" in source.modules:
        return translation_layout(source, weights)
    if needs_own_layout(source.model):
        return parallax_layout(source, weights, kind)
    return known_layout(source, weights, kind)


def head_kind(source: Source) -> str | None:
    """What the head of a fine-tuned model does, as its shape and its labels say."""
    if "head" not in source.modules or source.is_untouched:
        return None
    if "labels" not in source.metadata:
        raise UserError("has a head and no `labels` in its metadata, so nobody knows its classes; fine-tune it again")
    labels = json.loads(source.metadata["labels"])
    outputs = len(source.weights["head.output.weight"])
    dense = "head.dense.weight" in source.weights
    if labels is None and (dense or outputs != 2):
        raise UserError(f"its head has {outputs} classes and its metadata no labels for them; fine-tune it again")
    if labels is not None and len(labels) != outputs:
        raise UserError(f"its head has {outputs} classes and its metadata {len(labels)} labels; fine-tune it again")
    return "classification" if dense else "question-answering" if labels is None else "tagging"


def with_labels(config: dict, source: Source, kind: str | None) -> dict:
    if kind in ("classification", "tagging"):
        labels = json.loads(source.metadata["labels"])
        config["id2label"] = {str(number): label for number, label in enumerate(labels)}
        config["label2id"] = {label: number for number, label in enumerate(labels)}
    return config


# ---------------------------------------------------------------------------------------------------------------------
# Layouts of transformers


def known_layout(source: Source, weights: dict[str, Tensor], kind: str | None) -> tuple[dict, dict[str, Tensor], str]:
    """That of the checkpoint that it was imported from; XLM-R's; or, with a vocabulary in another order, BERT's."""
    model, order, kept = source.model, source.tokenizer.order, source.kept
    if kept is None and order != sorted(order):
        kept, weights = bert_layout(model, order), two_sided(model, weights)
        model = replace(model, token_types=max(2, model.token_types))
    config, tensors = to_foreign(model, weights, kept, order, kind)
    architecture = (config.get("architectures") or [""])[0]
    layout = FORMATS[config["model_type"]]
    if layout.decoder:  # AutoModel would make one of random weights
        architecture, config["architectures"] = layout.encoder_class, [layout.encoder_class]
    if architecture == "MBartEncoder":
        tensors = {named_in_mbart_encoder(name): tensor for name, tensor in tensors.items()}
    return with_labels(config, source, kind), tensors, auto_class_of(architecture)


def named_in_mbart_encoder(name: str) -> str:
    """transformers has a class of mBART's encoder alone, but it does not find it in the names of the whole."""
    name = name.removeprefix("model.").removeprefix("encoder.")
    return "embed_tokens.weight" if name == "shared.weight" else name


def auto_class_of(architecture: str) -> str:
    """XLMRobertaForMaskedLM -> AutoModelForMaskedLM, BertModel -> AutoModel; an encoder without its decoder is read by
    its own class alone."""
    if architecture in {layout.encoder_class for layout in FORMATS.values() if layout.decoder}:
        return architecture
    _, found, task = architecture.partition("For")
    return f"AutoModelFor{task}" if found else "AutoModel"


def two_sided(model: ModelConfig, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """BERT's tokenizers give the second of two texts type 1: a model that knows no sides takes it for type 0."""
    if model.token_types > 1:
        return weights
    row = weights.get("encoder.token_types.weight", torch.zeros(1, model.width))
    return weights | {"encoder.token_types.weight": row.repeat(2, 1)}


def bert_layout(model: ModelConfig, order: list[int]) -> dict:
    """Positions of BERT do not depend on the padding's id, which is another one there."""
    kept = own_layout(model)
    ids = {"pad_token_id": order[PAD], "bos_token_id": order[BOS], "eos_token_id": order[EOS]}
    own = {"model_type": "bert", "max_position_embeddings": model.positions - FIRST_POSITION}
    own["type_vocab_size"] = max(2, model.token_types)
    return kept | {"format": "bert", "prefix": FORMATS["bert"].prefix, "config": kept["config"] | ids | own}


# ---------------------------------------------------------------------------------------------------------------------
# Our own layout: the names of our weights, read by the modelling files


def needs_own_layout(model: ModelConfig | PreNormConfig) -> bool:
    if isinstance(model, PreNormConfig):  # of a checkpoint, whose layout has a place for all of it
        return False
    return bool(model.relative_bias or model.languages or model.admin or not model.absolute_positions)


def parallax_config(source: Source) -> dict:
    model, order = source.model, source.tokenizer.order
    return {
        "model_type": "parallax",
        "dtype": "float32",
        "vocab_size": model.vocabulary,
        "hidden_size": model.width,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "intermediate_size": model.ffn,
        "max_position_embeddings": model.positions,
        "absolute_positions": model.absolute_positions,
        "type_vocab_size": model.token_types,
        "language_vocab_size": model.languages,
        "languages": json.loads(source.metadata.get("languages", "[]")),
        "relative_bias": asdict(model.relative_bias) if model.relative_bias else None,
        "admin": model.admin,
        "hidden_dropout_prob": model.dropout,
        "attention_probs_dropout_prob": model.attention_dropout,
        "initializer_range": model.init_std,
        "layer_norm_eps": model.layer_norm_eps,
        "bos_token_id": order[BOS],
        "pad_token_id": order[PAD],
        "eos_token_id": order[EOS],
    }


def parallax_layout(
    source: Source, weights: dict[str, Tensor], kind: str | None
) -> tuple[dict, dict[str, Tensor], str]:
    config = parallax_config(source)
    auto_class = HEADS[kind] if kind else "AutoModel"
    if "mlm_head.bias" in weights:
        auto_class = "AutoModelForMaskedLM"
    elif "discriminator_head.output.weight" in weights:
        auto_class = "AutoModelForPreTraining"
        config["discriminator_head"] = "dense" if "discriminator_head.dense.weight" in weights else "linear"
    config["architectures"] = [AUTO_CLASSES[auto_class]]
    config["auto_map"] = {"AutoConfig": "configuration_parallax.ParallaxConfig"} | {
        auto: f"modeling_parallax.{own}" for auto, own in AUTO_CLASSES.items()
    }
    return with_labels(config, source, kind), in_their_order(weights, source), auto_class


def translation_layout(source: Source, weights: dict[str, Tensor]) -> tuple[dict, dict[str, Tensor], str]:
    for key, what in (("relative_bias", "distances"), ("languages", "the language of a token")):
        if getattr(source.model, key):
            raise UserError(
                f"has a decoder and model.{key}; no decoder of ours knows {what}, so there is nothing to export"
            )
    layers = {name.split(".")[2] for name in weights if name.startswith("decoder.blocks.")}
    config = parallax_config(source) | {
        "architectures": ["ParallaxForTranslation"],
        "auto_map": {
            "AutoConfig": "configuration_parallax.ParallaxConfig",
            TRANSLATION: "modeling_parallax_translation.ParallaxForTranslation",
        },
        "decoder_layers": len(layers),
        "decoder_start_token_id": source.tokenizer.order[EOS],
        "is_encoder_decoder": True,
    }
    return config, in_their_order(weights, source), TRANSLATION


def in_their_order(weights: dict[str, Tensor], source: Source) -> dict[str, Tensor]:
    """Rows by the ids of the tokenizer's files, as config.json and tokenizer.json have them."""
    order = source.tokenizer.order
    if order == sorted(order):
        return weights
    rows = sorted(range(len(order)), key=order.__getitem__)
    return weights | {name: weights[name][rows] for name in TOKENS if name in weights}


def search_of(source: Source, recipe: Recipe | None) -> dict:
    """What generate() needs to search as engine/beam.py does."""
    order = source.tokenizer.order
    return {
        "bos_token_id": order[BOS],
        "pad_token_id": order[PAD],
        "eos_token_id": order[EOS],
        "decoder_start_token_id": order[EOS],
        "num_beams": (recipe and recipe.recipe.beam) or 5,
        "length_penalty": recipe.recipe.penalty if recipe else 1.0,
        "early_stopping": True,
        "max_length": source.model.positions - 1,
        "suppress_tokens": sorted([order[BOS], order[PAD], order[source.tokenizer.mask]]),
    }


def modelling_files(config: dict) -> list[str]:
    if config["model_type"] != "parallax":
        return []
    files = ["configuration_parallax.py", "modeling_parallax.py"]
    return [*files, "modeling_parallax_translation.py"] if config.get("is_encoder_decoder") else files


def write_tokenizer(source: Source, folder: Path, model_type: str) -> None:
    longest = source.model.positions - FIRST_POSITION
    sides = source.model.token_types > 1
    write_hugging_face_tokenizer(source.tokenizer, folder, source.tokenizer.pair_separators, longest, sides)
    settings_file = folder / "tokenizer_config.json"
    settings = json.loads(settings_file.read_bytes()) if settings_file.exists() else {}
    if not isinstance(source.tokenizer, Imported):
        return
    theirs = source.tokenizer.layout.model_type
    if theirs != model_type and theirs in TOKENIZERS:  # transformers asks model_type, which is another one's
        write_json(settings_file, {"tokenizer_class": TOKENIZERS[theirs]} | settings)


if __name__ == "__main__":
    run_main(main)
