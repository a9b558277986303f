"""The model card of an export: what the model is, where it comes from, what its data may be used for, what it scores.

Markdown with a YAML head, as the hub reads it. No date and no path, so that equal models have equal cards.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from common.atomic import check_seal
from common.errors import UserError
from common.yamlfiles import read_scale, read_yaml
from engine.model import FIRST_POSITION
from engine.shape import ModelConfig
from plan.checkpoints import HUB
from plan.datasets import Dataset, bitext_ids, load_datasets, load_languages, mono_ids
from plan.recipes import TRAIN_PARTS
from plan.words import described
from report.scores import BY_UPDATE, Summary, group_paths, load_results, read_content, summarise

XLM = "Conneau and Lample, Cross-lingual Language Model Pretraining, NeurIPS 2019"
XLM_R = "Conneau et al., Unsupervised Cross-lingual Representation Learning at Scale, ACL 2020"
ERNIE_M = (
    "Ouyang et al., ERNIE-M: Enhanced Multilingual Representation by Aligning Cross-lingual Semantics with Monolingual "
    "Corpora, EMNLP 2021"
)
XLM_E = "Chi et al., XLM-E: Cross-lingual Language Model Pre-training via ELECTRA, ACL 2022"
VECO = (
    "Luo et al., VECO: Variable and Flexible Cross-lingual Pre-training for Language Understanding and Generation, "
    "ACL 2021"
)
PPA = "Pan et al., Multilingual BERT Post-Pretraining Alignment, NAACL 2021"
INFOXLM = (
    "Chi et al., InfoXLM: An Information-Theoretic Framework for Cross-Lingual Language Model Pre-Training, NAACL 2021"
)
XLM_ALIGN = "Chi et al., Improving Pretrained Cross-Lingual Language Models via Self-Labeled Word Alignment, ACL 2021"
BERT = "Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding, NAACL 2019"
UNICODER = (
    "Huang et al., Unicoder: A Universal Language Encoder by Pre-training with Multiple Cross-lingual Tasks, EMNLP 2019"
)
ALM = "Yang et al., Alternating Language Modeling for Cross-Lingual Pre-Training, AAAI 2020"
HICTL = "Wei et al., On Learning Universal Representations Across Languages, ICLR 2021"
MBART = "Liu et al., Multilingual Denoising Pre-training for Neural Machine Translation, TACL 2020"
MT5 = "Xue et al., mT5: A Massively Multilingual Pre-trained Text-to-Text Transformer, NAACL 2021"
METHODS = {  # objective -> what it is, and whose
    "mmlm": ("masked language modelling on text of each language", XLM_R),
    "tlm": ("masked language modelling on translation pairs", XLM),
    "camlm": ("masks of one sentence of a pair are predicted from the other alone (CAMLM)", ERNIE_M),
    "btmlm": ("masked language modelling with pseudo translations that the model makes itself (BTMLM)", ERNIE_M),
    "mrtd": ("replaced token detection on text of each language (MRTD)", XLM_E),
    "trtd": ("replaced token detection on translation pairs (TRTD)", XLM_E),
    "veco-mono": ("masked language modelling within and across two segments of a text", VECO),
    "veco-pairs": ("masked language modelling within and across the sentences of a pair", VECO),
    "ppa": ("sentence pairs are brought together by contrast with a queue of others, beside masked tokens", PPA),
    "xlco": ("sentence pairs are brought together by contrast (XLCO)", INFOXLM),
    "dwa": ("masks of one sentence point to their aligned words in the other (DWA)", XLM_ALIGN),
    "nsp": ("masked language modelling, and whether a segment follows another", BERT),
    "word-recovery": ("words are recovered from those of the translation", UNICODER),
    "paraphrase": ("whether two sentences are translations of each other", UNICODER),
    "cross-lingual-mlm": ("masked language modelling on texts whose sentences alternate between languages", UNICODER),
    "code-switch": ("masked language modelling on sentences with phrases of their translation", ALM),
    "hictl": ("contrast of sentence pairs and of the words that belong to them", HICTL),
    "denoising": ("a text is restored from one with spans removed and sentences permuted", MBART),
    "spans": ("removed spans of a text are written", MT5),
    "translation": ("translation of sentence pairs", VECO),
}
PIPELINES = {
    "AutoModel": "feature-extraction",
    "AutoModelForMaskedLM": "fill-mask",
    "AutoModelForPreTraining": "feature-extraction",
    "AutoModelForNextSentencePrediction": "text-classification",
    "AutoModelForSequenceClassification": "text-classification",
    "AutoModelForTokenClassification": "token-classification",
    "AutoModelForQuestionAnswering": "question-answering",
    "AutoModelForSeq2SeqLM": "translation",
}
TASK_TYPES = {  # as the hub names kinds of tasks; it has no name for word alignment
    "bucc": "sentence-similarity",
    "conll-ner": "token-classification",
    "flores": "translation",
    "mlqa": "question-answering",
    "paws-x": "text-classification",
    "tatoeba": "sentence-similarity",
    "tydiqa-goldp": "question-answering",
    "ud-pos": "token-classification",
    "wikiann-ner": "token-classification",
    "wmt14-en-de": "translation",
    "wmt14-en-fr": "translation",
    "xnli": "text-classification",
    "xquad": "question-answering",
}
UNCLEAR = "unclear"  # what nobody has stated


@dataclass(frozen=True)
class Exported:
    """What the export itself knows of the model."""

    metadata: dict[str, str]
    model: ModelConfig
    config: dict  # config.json
    auto_class: str  # of transformers, which reads it
    left_out: tuple[str, ...]  # modules of our weights file that the layout has no place for
    vocabulary_sha256: str
    tokenizer_kind: str  # as in layout.json
    dtype: str  # of most weights, for example float32

    @property
    def own_code(self) -> bool:
        return self.config["model_type"] == "parallax"

    @property
    def is_checkpoint(self) -> bool:
        """Somebody's, fine-tuned here or not."""
        return "checkpoint" in self.metadata

    @property
    def is_untouched(self) -> bool:
        return self.is_checkpoint and not self.metadata.get("task")

    @property
    def architecture(self) -> str:
        return (self.config.get("architectures") or [""])[0]

    @property
    def writes(self) -> bool:
        """It has a decoder. config.json of mBART's encoder alone still speaks of one."""
        return self.architecture == "ParallaxForTranslation"


@dataclass(frozen=True)
class Corpus:
    name: str
    of: str  # languages, pairs, or what it is for
    licences: tuple[str, ...]

    @property
    def said(self) -> str:
        return "; ".join(self.licences)


@dataclass(frozen=True)
class ShownScore:
    """A row of the card's table, and of its metadata: both round here."""

    task: str
    setting: str
    metric: str
    summary: Summary
    languages: tuple[str, ...]
    seeds: tuple[int, ...]

    @property
    def mean(self) -> float:
        return round(self.summary.mean, 1)

    @property
    def std(self) -> float | None:
        return None if self.summary.std is None else round(self.summary.std, 1)


def model_card(exported: Exported, args: argparse.Namespace) -> str:
    run = read_yaml(args.run_file, str(args.run_file)) if args.run_file else None
    before = [read_yaml(path, str(path)) for path in args.before]
    recipe = read_yaml(args.recipe, str(args.recipe)) if args.recipe else None
    scale = read_scale(args.scale) if args.scale else None
    corpora = corpora_of([one for one in (run, *before) if one], recipe, Path(args.datasets))
    scores = shown_scores(exported, args.scores, args.scale.stem if scale else None)
    parts = [
        head(exported, run, before, corpora, model_index(title(exported), scores, scale)),
        f"# {title(exported)}",
        *introduction(exported, run, before),
        *([scale_section(scale, args.scale.stem, exported)] if scale and not exported.is_untouched else []),
        provenance(exported, read_cost(args.cost, exported)),
        *data_section(corpora, bool(scale and scale.get("world")), exported),
        *scores_section(scores),
        loading(exported),
        limits(exported),
    ]
    return "\n\n".join(parts) + "\n"


def head(
    exported: Exported, run: dict | None, before: list[dict], corpora: list[Corpus], index: list[dict] | None
) -> str:
    metadata = exported.metadata
    languages = sorted({code for one in (run, *before) if one for code in languages_read(one)})
    tags = {"parallax", "cross-lingual", *(metadata[key] for key in ("run", "task") if metadata.get(key))}
    about: dict = {
        "language": languages or None,
        "license": "other",
        "license_name": "licences-of-the-training-data",
        "library_name": "transformers",
        "pipeline_tag": pipeline(exported, run),
        "tags": sorted(tags),
        "data_licences": {corpus.name: corpus.said for corpus in corpora} or None,
        "model-index": index,
    }
    kept = {key: value for key, value in about.items() if value is not None}
    return f"---\n{yaml.safe_dump(kept, sort_keys=False, allow_unicode=True, width=1000)}---"


def pipeline(exported: Exported, run: dict | None) -> str:
    """What the hub lists it under. mBART and mT5 write, but do not translate before they are trained to."""
    translates = not run or any(objective["name"] == "translation" for objective in run.get("objectives", []))
    if exported.writes and not translates:
        return "text2text-generation"
    return PIPELINES.get(exported.auto_class, "feature-extraction")


def languages_read(run: dict) -> set[str]:
    data = run.get("data", {})
    pairs = data.get("bitext", {}).get("corpora", {})
    return set(data.get("mono", {}).get("languages", [])) | {code for pair in pairs for code in pair.split("-")}


def title(exported: Exported) -> str:
    metadata = exported.metadata
    task = f", {metadata['task']} ({metadata['setting']})" if metadata.get("task") else ""
    return f"{metadata.get('run', 'A model')}{task}"


# ---------------------------------------------------------------------------------------------------------------------
# Sections


def introduction(exported: Exported, run: dict | None, before: list[dict]) -> list[str]:
    model, metadata = exported.model, exported.metadata
    decoder = f" and {layers} in the decoder" if (layers := exported.config.get("decoder_layers")) else ""
    shape = (
        f"{model.layers} layers{decoder} of width {model.width}, {model.heads} heads, {model.vocabulary:,} token ids, "
        f"inputs of at most {model.positions - FIRST_POSITION} tokens"
    )
    kind = "A multilingual Transformer encoder"
    if exported.writes:
        kind = "A multilingual Transformer with encoder and decoder"
    own = f"{kind} of Parallax, which reproduces cross-lingual pre-training: {shape}."
    if metadata.get("task"):
        own += (
            f" It was fine-tuned on {metadata['task']}, setting {metadata['setting']}, and kept the weights that were "
            "best on development data."
        )
    return [own, *([method(exported, run, before)] if run or "checkpoint" in metadata else [])]


def method_line(name: str) -> str:
    """An objective of somebody's own is named, and no more."""
    if name not in METHODS:
        return f"`{name}`"
    what, whose = METHODS[name]
    return f"`{name}`: {what} ({whose})"


def method(exported: Exported, run: dict | None, before: list[dict]) -> str:
    if exported.is_untouched:
        return "The weights are a published checkpoint, which Parallax read and wrote without a change."
    if not run or run.get("kind") == "checkpoint":
        return "The encoder is a published checkpoint."
    names = [objective["name"] for objective in run["objectives"]]
    if not names:
        return "The encoder was not trained: its weights are random, to compare with."
    lines = [f"- {method_line(name)}" for name in dict.fromkeys(names)]
    start = f", from the weights of `{run['init']['run']}`" if run.get("init") else ""
    known = ", ".join(f"`{one['name']}`" for one in before)
    behind = [f"Before it: {known}."] if known else []
    return "\n\n".join([f"Run `{run['name']}` was trained{start}, on:", "\n".join(lines), *behind])


def scale_section(scale: dict, name: str, exported: Exported) -> str:
    words = f"Scale `{name}`: {described(scale)}."
    if exported.is_checkpoint and scale.get("world"):
        words += (
            " The data that it was fine-tuned on are of the generated mini-world, and made up; the checkpoint is not. "
            "Its numbers are not comparable with published ones."
        )
    elif scale.get("warning"):
        words += " It tests the code: **the numbers of this model mean nothing**, and it is of no use."
    elif scale.get("world"):
        words += (
            " Its text is the generated mini-world: made-up languages in the place of real ones, under their codes. "
            "**It knows no real language**, and its numbers are not comparable in absolute value with published ones."
        )
    return f"## Scale\n\n{words}"


def provenance(exported: Exported, cost: dict | None) -> str:
    metadata = exported.metadata
    rows = [
        ("run", metadata.get("run")),
        ("run hash", metadata.get("run_hash")),
        ("commit", metadata.get("commit")),
        ("seed", metadata.get("seed")),
        ("seed of pre-training", metadata.get("pretrain_seed")),
        ("steps", metadata.get("steps")),
        ("averaged snapshots", metadata.get("averaged")),
        ("selected", selected(json.loads(metadata.get("selection") or "null"))),
        ("sha256 of the vocabulary", exported.vocabulary_sha256),
    ]
    if cost:
        rows += [
            ("tokens of training", f"{cost['tokens']:.0f}"),
            ("FLOPs, ours", f"{cost['flops']:.4g}"),
            ("FLOPs, as the papers count", f"{cost['flops_by_the_papers_counting']:.4g}"),
            ("parameters of the encoder", f"{cost['parameters']['encoder']}"),
            ("trained on", f"{cost['world_size']} x {cost['device']}, torch {cost['torch']}"),
        ]
    said = "" if not cost or not metadata.get("task") else " Tokens and FLOPs are those of pre-training."
    lines = [f"| {key} | {value} |" for key, value in rows if value not in (None, "", "null")]
    return "\n".join(
        [f"## Provenance{'' if not said else chr(10) * 2 + said.strip()}", "", "| | |", "| --- | --- |", *lines]
    )


def selected(selection: dict | None) -> str | None:
    if not selection:
        return None
    languages = ", ".join(sorted(selection["dev"]))
    best = f"{selection['metric']} {selection['score']:.1f} on dev of {languages}"
    again = (
        f", after {restarts} restart{'s' if restarts > 1 else ''}" if (restarts := selection.get("restarts")) else ""
    )
    return f"step {selection['step']} of {selection['of']}: {best}{again}"


def data_section(corpora: list[Corpus], made_up: bool, exported: Exported) -> list[str]:
    if not corpora:
        return []
    words = "What the data's owners allow holds for what is made of it: look before you use the model."
    if made_up and not exported.is_untouched:
        text = "the data of the task are" if exported.is_checkpoint else "the text is"
        words = (
            f"At this scale {text} generated in the form of these corpora. The licences are those of the corpora "
            "whose place it takes."
        )
    rows = [f"| {corpus.name} | {corpus.of} | {corpus.said} |" for corpus in corpora]
    unclear = [corpus.name for corpus in corpora if UNCLEAR in corpus.said]
    lines = ["## Data and licences", "", words, "", "| data | of | licence |", "| --- | --- | --- |", *rows]
    if unclear:
        lines += ["", f"The licence is unclear of: {', '.join(unclear)}."]
    return ["\n".join(lines)]


def shown_scores(exported: Exported, paths: Iterable[Path], scale: str | None) -> list[ShownScore]:
    shown = []
    for (_, task, setting), found in sorted(group_paths(paths).items()):
        files = {seed: path for seed, path in found.items() if is_of(exported, read_content(path, scale), path)}
        results = load_results(files, scale)
        metrics = sorted({score.metric for scores in results.by_seed.values() for score in scores})
        for metric in (name for name in metrics if not name.endswith(("-by-layer", BY_UPDATE))):
            languages = tuple(results.languages(metric))
            summary = summarise(results.average_values(languages, metric).values())
            shown.append(ShownScore(task, setting, metric, summary, languages, tuple(sorted(results.by_seed))))
    return shown


def scores_section(scores: list[ShownScore]) -> list[str]:
    if not scores:
        return []
    rows = [
        f"| {one.task} | {one.setting} | {one.metric} | {one.mean}{f' ± {one.std}' if one.std is not None else ''} | "
        f"{', '.join(one.languages)} | {', '.join(map(str, one.seeds))} |"
        for one in scores
    ]
    top = [
        "| task | setting | metric | mean over languages | languages | seeds |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    note = "In per cent, of test data; for several seeds mean and standard deviation. Of an error rate less is better."
    return ["\n".join(["## Scores", "", note, "", *top, *rows])]


def model_index(name: str, scores: list[ShownScore], scale: dict | None) -> list[dict] | None:
    """The same scores as the hub reads them. Only where the data is known to be real does it bear the task's name: a
    score on the generated mini-world must never stand beside others' of the data that it imitates."""
    if not scores:
        return None
    results = []
    for one in scores:
        dataset = {"type": one.task, "name": one.task}
        if scale is None or scale.get("world"):
            made_up = "generated-mini-world" if scale else "data-of-unknown-scale"
            dataset = {"type": made_up, "name": f"{made_up.replace('-', ' ')}, in the form of {one.task}"}
        about = f"{one.metric} of {one.task}, {one.setting}, mean over {', '.join(one.languages)}"
        spread = {} if one.std is None else {"std": one.std}
        metric = {"type": one.metric.replace("-", "_"), "name": about, "value": one.mean}
        metric["args"] = {"seeds": list(one.seeds), **spread}
        task = {"type": TASK_TYPES.get(one.task, one.task)}
        results.append({"task": task, "dataset": dataset | {"split": "test"}, "metrics": [metric]})
    return [{"name": name, "results": results}]


def is_of(exported: Exported, content: dict, path: Path) -> bool:
    """A score of other weights, such as those that were there before, has no place on this card."""
    own = exported.metadata.get("run_hash", content["run_hash"])
    if content["run_hash"] != own:
        print(f"{path}: of run hash {content['run_hash']}, and the model has {own}: left out", file=sys.stderr)
    return content["run_hash"] == own


def read_cost(path: Path | None, exported: Exported) -> dict | None:
    if path is None:
        return None
    try:
        cost = json.loads(path.read_text(encoding="utf-8"))
        check_seal(cost, path, "delete the run's weights and train again")
        cost = cost.get("cost", cost)  # a summary of the training has it inside
        needed = (
            "run",
            "tokens",
            "flops",
            "flops_by_the_papers_counting",
            "parameters",
            "world_size",
            "device",
            "torch",
        )
        missing = [key for key in needed if key not in cost]
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; give the cost.json of the training") from None
    except (ValueError, AttributeError) as error:
        raise UserError(f"{path}: not what pretrain.py writes ({error}); give the cost.json of the training") from None
    if missing:
        raise UserError(f"{path}: key {missing[0]!r} is missing; give the cost.json of the training")
    if cost["run"] != exported.metadata.get("run", cost["run"]):
        raise UserError(f"{path}: is of run {cost['run']}, and the model of {exported.metadata['run']}")
    return cost


# ---------------------------------------------------------------------------------------------------------------------
# Licences


def corpora_of(runs: list[dict], recipe: dict | None, tsv: Path) -> list[Corpus]:
    """The corpora of these runs and the data of the task, with the licences that config/datasets.tsv has of them."""
    datasets, languages = load_datasets(tsv), load_languages(tsv.with_name("languages.tsv"))
    of: dict[str, set[str]] = {}
    ids: dict[str, set[str]] = {}

    def note(name: str, what: str, found: Iterable[str]) -> None:
        of.setdefault(name, set()).add(what)
        ids.setdefault(name, set()).update(found)

    for run in runs:
        data, source = run.get("data", {}), run.get("source", {})
        if hub := source.get("hub"):
            note(hub, "published weights", [id_ for id_ in datasets if id_.startswith(f"{HUB}{hub}/")])
        elif source:
            note(f"checkpoint of {run['name']}", "published weights", [])
        for code in data.get("mono", {}).get("languages", []):
            note(data["mono"]["corpus"], code, mono_ids(data["mono"]["corpus"], code, datasets, languages))
        for pair, names in data.get("bitext", {}).get("corpora", {}).items():
            for corpus in names:
                note(corpus, pair, bitext_ids(corpus, pair, datasets, languages))
    for part, id_ in (recipe or {}).get("datasets", {}).items():
        if part.partition("-")[0] in TRAIN_PARTS:
            note(id_.partition("/")[0], f"{recipe['task']}, {part.partition('-')[0]}", [id_])
    return [Corpus(name, ", ".join(sorted(of[name])), licences(ids[name], datasets)) for name in sorted(of)]


def licences(ids: Iterable[str], datasets: dict[str, Dataset]) -> tuple[str, ...]:
    found = set()
    for id_ in ids:
        if id_ not in datasets:
            raise UserError(f"config/datasets.tsv, column id: no row {id_}; add it, with its licence")
        found.add(datasets[id_].licence)
    return tuple(sorted(plain(licence) for licence in found or {""}))


def plain(licence: str) -> str:
    """What is not stated is unclear, and said so."""
    if not licence:
        return f"{UNCLEAR}: not stated"
    return f"{UNCLEAR}: {licence}" if licence.startswith("not stated") else licence


# ---------------------------------------------------------------------------------------------------------------------
# How to load


def loading(exported: Exported) -> str:
    auto, own = exported.auto_class, exported.own_code
    trust = ", trust_remote_code=True" if own else ""
    pooled = exported.config.get("architectures") != ["XLMRobertaModel"] or "checkpoint" in exported.metadata
    bare = "" if pooled else ", add_pooling_layer=False"
    lines = [
        *imports(auto),
        "",
        f'tokenizer = AutoTokenizer.from_pretrained("this-folder"{trust})',
        f'model = {auto}.from_pretrained("this-folder"{trust}{bare})',
        *EXAMPLES[auto],
    ]
    words = [f"## How to load\n\n```python\n{chr(10).join(lines)}\n```"]
    words.append(f"The weights are {exported.dtype}.")
    if exported.dtype == "float32":
        words[-1] += " For bf16, pass `dtype=torch.bfloat16` to `from_pretrained`; the answers then differ a little."
    if own:
        words.append(
            "`modeling_parallax*.py` here is the model's code, for transformers 5: read it before you trust it."
        )
    if exported.config["model_type"] == "ernie_m":
        words.append("transformers 5 has no ERNIE-M any more: take 4.46.")
    elif exported.tokenizer_kind == "ernie-m":
        words.append("Its tokenizer is ERNIE-M's and needs transformers 4.46; later ones have it no more.")
    if exported.model.languages:
        owner = "model" if auto == "AutoModel" else "model.encoder"
        codes = exported.config["languages"]
        words.append(
            f"Each language has an embedding ({', '.join(codes)}). Say which, a number for each row: "
            f'`model(**inputs, language_ids=torch.tensor([{owner}.language_number("{codes[0]}")]))`. Without it '
            "every row counts as English."
        )
    if exported.model.token_types > 1:
        words.append(
            "It knows the two sides of a pair apart: give the tokenizer both texts, and the model its `token_type_ids`."
        )
    return "\n\n".join(words)


def imports(auto: str) -> list[str]:
    if auto == "MBartEncoder":  # the one class that has to be asked for by its module
        return [
            "from transformers import AutoTokenizer",
            f"from transformers.models.mbart.modeling_mbart import {auto}",
        ]
    return [f"from transformers import {', '.join(sorted({auto, 'AutoTokenizer'}))}"]


LEFT_OUT = {
    "cross_attention": "VECO's cross-attention, which makes a decoder of these layers",
    "tags": "mBART's vector of each language, so train it on before it says anything",
    "sentinels": "mT5's vectors of the sentinels, so train it on before it says anything",
}
ENCODERS = {
    "MBartEncoder": "Parallax gives it `<s> X </s>`, without the code of the language.",
    "MT5EncoderModel": "Parallax gives it `<s> X </s>`, where a row of the table that no token has stands for `<s>`.",
}
FORWARD = ['inputs = tokenizer(["One text.", "Another, which is longer."], padding=True, return_tensors="pt")']
PAIR = ['inputs = tokenizer("A question or premise.", "A context or hypothesis.", return_tensors="pt")']
EXAMPLES = {
    "AutoModel": [*FORWARD, "states = model(**inputs).last_hidden_state"],
    "AutoModelForMaskedLM": [*FORWARD, "logits = model(**inputs).logits"],
    "AutoModelForPreTraining": [*FORWARD, "output = model(**inputs)  # with the logits of each head"],
    "AutoModelForNextSentencePrediction": [*PAIR, "logits = model(**inputs).logits  # first: the second text follows"],
    "MBartEncoder": [*FORWARD, "states = model(**inputs).last_hidden_state"],
    "MT5EncoderModel": [*FORWARD, "states = model(**inputs).last_hidden_state"],
    "AutoModelForSequenceClassification": [
        *PAIR,
        "label = model.config.id2label[int(model(**inputs).logits.argmax())]",
    ],
    "AutoModelForTokenClassification": [*FORWARD, "tags = model(**inputs).logits.argmax(-1)"],
    "AutoModelForQuestionAnswering": [
        *PAIR,
        "output = model(**inputs)",
        "first, last = int(output.start_logits.argmax()), int(output.end_logits.argmax())",
    ],
    "AutoModelForSeq2SeqLM": [
        *FORWARD,
        "said = model.generate(**inputs)",
        "texts = tokenizer.batch_decode(said, skip_special_tokens=True)",
    ],
}


def limits(exported: Exported) -> str:
    found = [
        "It was made to compare methods, not to be used: nobody looked at what it says, or at whom it may harm.",
        f"Inputs have at most {exported.model.positions - FIRST_POSITION} tokens. States of `<pad>` mean nothing.",
    ]
    if exported.auto_class == "AutoModelForSeq2SeqLM":
        found.append(
            "`generate()` searches as Parallax does; where a translation grows to `max_length`, the two end it in "
            "different ways. Parallax normalises a source (Unicode NFC, spaces) before it is encoded."
        )
    if exported.auto_class in ENCODERS:
        found.append(f"The encoder alone is here. {ENCODERS[exported.auto_class]}")
    found += [
        f"Not in this folder, as its layout has no place for it: {LEFT_OUT.get(name, name)}."
        for name in exported.left_out
    ]
    if exported.auto_class == "AutoModelForTokenClassification":
        found.append("Of a word, the tag of its first piece counts.")
    return "## Limits\n\n" + "\n".join(f"- {words}" for words in found)
