"""What a table or figure asks for, and the published numbers that it shows."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path

from common.csvfiles import read_rows
from common.errors import UserError
from common.yamlfiles import read_yaml
from report.scores import BOTH, BY_UPDATE, ENGLISH, LESS_IS_BETTER

AVERAGE = "avg"
OTHERS = "others"  # the mean of the languages that are not English
GAP = "gap"  # English minus the mean of the other languages
SCALE_LANGUAGES = "scale"
PUBLISHED_ERROR = "error of the publication"

DIRECTIONS = ("en-xx", "xx-en", BOTH)
# What each task counts with in the average of XTREME: one number, or the mean of two.
XTREME = {
    "xnli": ["accuracy"],
    "paws-x": ["accuracy"],
    "ud-pos": ["f1"],
    "wikiann-ner": ["f1"],
    "xquad": ["f1", "exact-match"],
    "mlqa": ["f1", "exact-match"],
    "tydiqa-goldp": ["f1", "exact-match"],
    "bucc": ["f1"],
    "tatoeba": ["accuracy"],  # of the direction en-xx
}

SPEC_KEYS = {"paper", "item", "title", "published", "published_scale", "columns", "averages", "groups", "notes"}
PUBLISHED_SCALES = (1, 100)  # of the printed numbers: as they are, or fractions that are shown in per cent
COLUMN_KEYS = {
    "task",
    "published_task",
    "metric",
    "published_metric",
    "setting",
    "languages",
    "published_languages",
    "direction",
    "reaches",
    "average",
    "show",
    "heading",
}
AVERAGE_KEYS = {"xtreme", "tasks", "of", "heading", "published_task", "published_metric"}
MASK_SPEC_KEYS = {"paper", "item", "title", "masks", "notes"}
FIGURE_KEYS = {"bars", "cost", "points", "colours"}  # of specs of figures; plan and schema look into them
GROUP_KEYS = {"title", "setting", "settings", "published_setting", "rows"}
ROW_KEYS = {"label", "published", "published_note", "run", "without_run"}
REQUIRED = {
    "spec": {"paper", "item", "title", "columns", "groups"},
    "spec of masks": {"paper", "item", "title", "masks"},
    "panel": {"title", "rule", "documents"},
    "column": {"task", "metric", "languages"},
    "average": {"heading"},
    "group": {"title", "rows"},
    "row": {"label"},
}


@dataclass(frozen=True)
class Published:
    value: str  # as printed: the number of decimals is kept
    layer: int | None = None


@dataclass(frozen=True)
class Column:
    task: str
    metric: str
    setting: str | None
    language: str  # a code, AVERAGE, OTHERS or GAP
    languages: tuple[str, ...]  # of the average or the gap
    heading: str
    published_task: str
    published_metric: str
    published_language: str
    of_scale: bool = False
    direction: str | None = None  # of retrieval; None: the task's headline
    reaches: str | None = None  # a run: the column counts the updates until a seed is where that run ends
    target: float | None = None  # where it ends
    parts: tuple[tuple["Column", ...], ...] = ()  # of an average over tasks: for each task the columns that count

    @property
    def is_derived(self) -> bool:
        """Does it stand for several languages?"""
        return self.language in (AVERAGE, OTHERS, GAP)

    @property
    def less_is_better(self) -> bool:
        return (
            self.language == GAP or self.reaches is not None or self.metric.removesuffix("-by-layer") in LESS_IS_BETTER
        )

    @property
    def decimals(self) -> int:
        return 1 if self.reaches is None else 0


@cache
def paper_names(root: Path) -> dict[str, str]:
    return {row["key"]: row["name"] for row in read_rows(root / "config/published/papers.tsv")}


@cache
def models(root: Path) -> dict[str, dict[str, str]]:
    return {row["key"]: row for row in read_rows(root / "config/published/models.tsv")}


def check_keys(where: str, value: object, kind: str, allowed: set[str]) -> None:
    if not isinstance(value, dict):
        raise UserError(f"{where}: expected a mapping with the keys {', '.join(sorted(REQUIRED[kind]))}")
    for key in value:
        if key not in allowed:
            raise UserError(f"{where}: unknown key {key!r}; known: {', '.join(sorted(allowed))}")
    for key in sorted(REQUIRED[kind] - set(value)):
        raise UserError(f"{where}: key {key!r} is missing")


def item_key(spec: dict) -> str:
    """`ernie-m/table-01`, by which a table or figure is named and lies in its folder."""
    return f"{spec['paper']}/{spec['item']}"


def load_spec(path: str | Path) -> dict:
    """Read and check one spec."""
    path = Path(path)
    spec = read_yaml(path)
    if isinstance(spec, dict) and "masks" in spec:
        check_keys(str(path), spec, "spec of masks", MASK_SPEC_KEYS)
        for i, panel in enumerate(spec["masks"], start=1):
            check_keys(f"{path}, masks entry {i}", panel, "panel", REQUIRED["panel"])
        return spec
    if isinstance(spec, dict) and "compare" in spec:  # the plan checks what it names
        return spec
    if isinstance(spec, dict) and {"diagram", "training", "simulation", "effects"} & set(
        spec
    ):  # no columns: plan and schema check them
        return spec
    check_keys(str(path), spec, "spec", SPEC_KEYS | FIGURE_KEYS)
    if not spec["columns"] or not spec["groups"]:
        raise UserError(f"{path}: 'columns' and 'groups' each need at least one entry")
    if spec.get("published_scale", 1) not in PUBLISHED_SCALES:
        raise UserError(f"{path}, key 'published_scale': {spec['published_scale']!r} is not 100")
    for i, column in enumerate(spec["columns"], start=1):
        check_column(f"{path}, columns entry {i}", column)
    for i, average in enumerate(spec.get("averages", []), start=1):
        check_average(f"{path}, averages entry {i}", average, spec["columns"])
    for i, group in enumerate(spec["groups"], start=1):
        check_keys(f"{path}, groups entry {i}", group, "group", GROUP_KEYS)
        for j, row in enumerate(group["rows"], start=1):
            where = f"{path}, groups entry {i}, rows entry {j}"
            check_keys(where, row, "row", ROW_KEYS)
            if "published" not in row and "run" not in row:
                raise UserError(f"{where} ({row['label']}): needs 'published', 'run' or both")
            if "published" in row and "published" not in spec:
                raise UserError(f"{where} ({row['label']}): the spec names no file of published numbers")
    for i, column in enumerate(spec["columns"], start=1):
        if column.get("reaches") is not None and row_of(spec, column["reaches"]) is None:
            raise UserError(f"{path}, columns entry {i}, key 'reaches': no row has run {column['reaches']}; add one")
    return spec


def row_of(spec: dict, run: str) -> tuple[dict, dict] | None:
    """The first group and row that a run has in a spec."""
    found = ((group, row) for group in spec["groups"] for row in group["rows"] if row.get("run") == run)
    return next(found, None)


def check_column(where: str, column: dict) -> None:
    check_keys(where, column, "column", COLUMN_KEYS)
    languages = column["languages"]
    if languages != SCALE_LANGUAGES and not (
        isinstance(languages, list) and languages and all(isinstance(code, str) for code in languages)
    ):
        raise UserError(
            f"{where}, key 'languages': expected a list of codes (quote 'no': YAML reads it as false) or "
            f"{SCALE_LANGUAGES!r}, not {languages!r}"
        )
    if languages != SCALE_LANGUAGES and len(set(languages)) != len(languages):
        raise UserError(f"{where}, key 'languages': a language stands twice")
    if column.get("direction", BOTH) not in DIRECTIONS:
        raise UserError(f"{where}, key 'direction': {column['direction']!r} is none of {', '.join(DIRECTIONS)}")
    if "reaches" in column and not (column["metric"].endswith(BY_UPDATE) and len(languages) == 1):
        raise UserError(f"{where}, key 'reaches': is for one language and a metric by update (sacrebleu{BY_UPDATE})")
    if GAP in column.get("show", []):
        if languages != SCALE_LANGUAGES and ENGLISH not in languages:
            raise UserError(f"{where}, key 'show': {GAP!r} needs {ENGLISH!r} among the languages")
        if column["metric"] in LESS_IS_BETTER:
            raise UserError(f"{where}, key 'show': {GAP!r} is of metrics where more is better, not {column['metric']}")


def check_average(where: str, average: dict, columns: list[dict]) -> None:
    """An average over tasks is over columns of its table: their languages and settings are its own."""
    check_keys(where, average, "average", AVERAGE_KEYS)
    if ("xtreme" in average) == ("tasks" in average):
        raise UserError(f"{where}: needs one of 'xtreme' (as XTREME counts) and 'tasks' (the mean of their columns)")
    if average.get("of", AVERAGE) not in (AVERAGE, GAP):
        raise UserError(f"{where}, key 'of': {average['of']!r} is neither {AVERAGE!r} nor {GAP!r}")
    for task in average.get("tasks", []):
        if not any(column["task"] == task for column in columns):
            raise UserError(f"{where}, key 'tasks': no column of {task}; add one (with 'show: []' it stays hidden)")
    for task in average.get("xtreme", []):
        if task not in XTREME:
            raise UserError(f"{where}, key 'xtreme': {task!r} is no task of it; known: {', '.join(XTREME)}")
        found = sorted(column["metric"] for column in columns if column["task"] == task)
        if found != sorted(XTREME[task]):
            raise UserError(
                f"{where}, key 'xtreme': {task} counts with one column of each of {', '.join(XTREME[task])}, the table "
                f"has {', '.join(found) or 'none'} (with 'show: []' a column stays hidden)"
            )
        if task == "tatoeba" and not any(column["task"] == task and "direction" in column for column in columns):
            raise UserError(
                f"{where}, key 'xtreme': the column of tatoeba needs a 'direction': en-xx is XTREME's, 'both' the mean"
            )


class PublishedNumbers:
    """One CSV of config/published: setting,model,task,language,metric[,layer or epoch],value,note.

    A curve that is printed without a number has a row without a value.
    """

    def __init__(self, path: Path | None, scale: int = 1):
        """`scale`: 100 gives per cent for printed fractions, with the same digits: 0.7798 is 77.98."""
        self.path = path
        self.rows = read_rows(path) if path else []
        for line, row in enumerate(self.rows, start=2):
            try:
                if row["value"] != "":
                    float(row["value"])
                    row["value"] = str(Decimal(row["value"]).scaleb(2)) if scale == 100 else row["value"]
            except (KeyError, TypeError, ValueError):
                raise UserError(f"{path}, line {line}: column 'value' is not a number") from None

    def of_model(self, setting: str, model: str, note: str | None = None) -> list[dict[str, str]]:
        rows = [row for row in self.rows if row["setting"] == setting and row["model"] == model]
        if note is not None:
            rows = [row for row in rows if row["note"] == note]
        if not rows:
            told = f" and note {note!r}" if note is not None else ""
            raise UserError(f"{self.path}: no row of model {model!r} in setting {setting!r}{told}; mend the spec")
        return rows

    def values(self, setting: str, model: str, note: str | None, columns: list[Column]) -> list[str | None]:
        rows = self.of_model(setting, model, note)
        values = []
        for column in columns:
            wanted = (column.published_task, column.published_metric, column.published_language)
            found = [
                row["value"] for row in rows if (row["task"], row["metric"], row["language"]) == wanted and row["value"]
            ]
            if len(found) > 1:
                raise UserError(
                    f"{self.path}: {model} {setting} {' '.join(wanted)} stands {len(found)} times; "
                    "tell the rows apart by 'published_note' in the spec"
                )
            values.append(found[0] if found else None)
        return values


def errata_of(root: Path, paper: str, item: str) -> list[dict[str, str]]:
    """Errors that the papers themselves contain; differences between papers that are no errors stay in the file."""
    rows = read_rows(root / "config/published/errata.csv")
    return [
        row
        for row in rows
        if (row["paper"], row["item"]) == (paper, item) and row["explanation"].startswith(PUBLISHED_ERROR)
    ]


def split_setting(name: str, known: Iterable[str]) -> tuple[str, str | None]:
    """`translate-train-de` -> translate-train, de: a setting that trains one model for each language has a folder of
    each. The name of a known setting (translate-train-all) is that setting."""
    setting, _, language = name.rpartition("-")
    return (setting, language) if name not in known and setting in known else (name, None)
