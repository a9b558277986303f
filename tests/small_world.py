"""The settings of a generated world that is made in a second."""

from pathlib import Path

SETTINGS = {
    "seed": 1,
    "languages": {"en": 1.0, "de": 0.5, "hi": 0.5, "zh": 0.5},
    "documents": 60,
    "sentences_per_document": [4, 8],
    "bitext": {"de": ["Europarl"], "hi": ["IITB"], "zh": ["MultiUN"]},
    "pairs": 100,
    "nli": {"train": 30, "dev": 15, "test": 15},
    "pos": {"train": 30, "dev": 10, "test": 10},
    "tatoeba": 30,
    "paraphrase": {"train": 60, "dev": 20, "test": 20},
    "ner": {"train": 30, "dev": 10, "test": 15},
    "qa": {"train": 40, "dev": 12, "test": 20},
    "mining": {"pairs": {"dev": 10, "test": 15}, "others": {"dev": 12, "test": 20}},
    "alignment": 15,
    "dirt": 0.03,
}
DATASETS = Path(__file__).resolve().parent.parent / "config" / "datasets.tsv"
