"""The files behind a number, made up and small: of a training, of predictions, of a score."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import yaml

import score
from archives import ud_tgz, word, xnli_row, xnli_zip
from resolved import files_of
from tasks import tatoeba
from tasks.recipe import load_recipe, raw_paths


def entry(language: str, value: float, metric: str = "accuracy", **more: object) -> dict:
    return {"language": language, "metric": metric, "value": value, "n": 300, "chance": 33.0, **more}


def write(root: Path, scores: list[dict], run="xlm-r", task="xnli", setting="transfer", seed=1, **more: object) -> Path:
    path = root / run / task / setting / f"seed-{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"run": run, "task": task, "setting": setting, "seed": seed, "scale": "mini", "task_version": 1}
    path.write_text(json.dumps({**content, "run_hash": "abc", "scores": scores, **more}))
    return path


COST = {"flops": 6.0, "flops_by_the_papers_counting": 8.0, "tokens": 100, "steps": 3, "seconds": 1.5, "parameters": {}}


def write_files(folder: Path, steps: int = 3) -> dict[str, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: folder / name for name in ("run.yaml", "cost.json", "train.jsonl")}
    files["run.yaml"].write_text(yaml.safe_dump({"name": "xlm", "numerics": 1}))
    files["cost.json"].write_text(json.dumps(COST))
    rows = [
        {"step": step, "lr": 0.1, "gradient_norm": 2.0, "mmlm/loss": 10 / step, "mmlm/tokens": 5, "mmlm/accuracy": 0.1}
        for step in range(1, steps + 1)
    ]
    files["train.jsonl"].write_text("".join(json.dumps(row) + "\n" for row in rows))
    return files


XNLI_10 = "dl.fbaipublicfiles.com/XNLI/XNLI-1.0.zip"
UD = "lindat.mff.cuni.cz/repository/xmlui/bitstream/handle/11234/1-3105/ud-treebanks-v2.5.tgz"
LASER = "raw.githubusercontent.com/facebookresearch/LASER/main/data/tatoeba/v1"


def make_world(tmp_path: Path, repository: Path) -> Callable[[str, str], SimpleNamespace]:
    """Four German and four French XNLI rows, two tagged sentences, three sentence pairs; perfect predictions of all."""
    raw = tmp_path / "raw"
    for path in (XNLI_10, UD, f"{LASER}/x"):
        (raw / path).parent.mkdir(parents=True, exist_ok=True)
    labels = ["neutral", "entailment", "contradiction", "entailment"]
    rows = [
        xnli_row(language, label, f"{language} {i}", "b", str(i))
        for language in ("de", "fr")
        for i, label in enumerate(labels)
    ]
    xnli_zip(raw / XNLI_10, rows)
    text = "\n".join([word(1, "a", "NOUN"), word(2, "b", "VERB", 1), "", word(1, "c", "NOUN"), "", ""])
    ud_tgz(raw / UD, {f"UD_X/{code}_x-ud-test.conllu": text for code in ("de", "fr")})
    for code in ("deu", "fra"):
        (raw / LASER / f"tatoeba.{code}-eng.{code}").write_text("eins\nzwei\ndrei\n")
        (raw / LASER / f"tatoeba.{code}-eng.eng").write_text("one\ntwo\nthree\n")

    def make(task: str, setting: str) -> SimpleNamespace:
        content = yaml.safe_load((repository / "config/tasks" / f"{task}.yaml").read_text())
        content.pop("settings")
        content["datasets"] = files_of(repository, content["datasets"], ["de", "fr"], ["en"])
        hyper = {k: v for k, v in content.pop("recipes")["default"].items() if k != "settings"}
        content |= {"setting": setting, "languages": ["de", "fr"], "train_languages": ["en"], "train_limit": None}
        recipe = tmp_path / f"{task}.yaml"
        recipe.write_text(yaml.safe_dump({**content, "recipe": {**hyper, "name": "default"}}))
        folder = tmp_path / task
        folder.mkdir()
        module = score.task_module(task)
        paths = raw_paths(load_recipe(recipe), raw, repository / "config/datasets.tsv")
        test = module.read_test(paths, ["de", "fr"], {})
        described = {}
        for language, examples in test.items():
            gold = module.gold_of(examples)
            described[language] = {"n": len(gold), "inputs_sha256": module.inputs_of(examples)}
            module.write_predictions(folder / f"test-{language}.tsv", gold)
            if task == "tatoeba":
                layers = {(d, layer): gold if layer else [0, 0, 0] for d in tatoeba.DIRECTIONS for layer in range(4)}
                layers["xx-en", 2] = [0, 1, 1]
                tatoeba.write_layer_predictions(folder / f"layers-{language}.tsv", layers)
        facts = {"run": "r", "scale": "mini", "seed": 4, "pretrain_seed": 1, "task": task, "task_version": 1}
        facts |= {"setting": setting, "recipe": "default", "max_length": 128, "split": "test", "run_hash": "h"}
        facts |= {"commit": "c", "dtype": "float32", "layers": 3, "layer": 2, "selection": None, "languages": described}
        (folder / "predictions.json").write_text(json.dumps(facts))
        return SimpleNamespace(
            recipe=recipe,
            predictions=folder,
            raw=raw,
            counts="any",
            datasets=repository / "config/datasets.tsv",
        )

    return make
