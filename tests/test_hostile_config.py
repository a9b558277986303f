"""No value of the configuration is read by a shell: whatever a string of config/ holds, it is one word of a command.

The commands are those that Snakemake prints for the whole workflow, and they are run, with programs that only write
down what they were given.
"""

import os
import random
import re
import string
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from common import yamlfiles
from common.errors import UserError
from plan import check_tasks, compare_specs, load
from plan.check import check_run
from plan.claimed import all_needs
from plan.datasets import load_datasets, load_languages
from plan.load import load_cleaning, load_config
from plan.schemas import Schemas
from trees import copy_tree, rule_blocks, snakemake

HOSTILE = "x $(touch owned) `touch owned` & ' | > owned * \\ ; \" # é !! ~ && touch owned\\"
SPELLINGS = (
    HOSTILE,
    "$(touch owned)",
    "a b",
    "';touch owned;'",
    "{output}",
    "{",
    "--help",
    "a\u2028b",
    "../../x",
    "x\n",
)

# Texts that people read. Every other string of config/ names something, and a name that nothing has is refused.
READ_BY_PEOPLE = {
    "runs": {"paper.id", "paper.reaches", "paper.table"},
    "scales": {"description"},
    "tables": {
        "columns.[].published_metric",
        "columns.[].published_task",
        "columns.[].reaches",
        "groups.[].published_setting",
        "groups.[].rows.[].label",
        "groups.[].rows.[].without_run",
        "groups.[].title",
        "notes.[]",
        "title",
    },
    "figures": {"notes.[]", "title"},
}
CHECKPOINT = """
name: mine
kind: checkpoint
numerics: 1
source: {folder: %s}
model: {layers: 12, width: 768, heads: 12, ffn: 3072, positions: 514, vocabulary: 250002}
finetune_recipe: xlm-r
"""
SHELL_RULE = re.compile(r"^    shell:\n((?:        .*\n?)+)", re.MULTILINE)


def kind_of(shown: str) -> str:
    parts = Path(shown).parts
    return parts[1] if len(parts) > 2 else parts[-1]


def leaves(value: object, path: tuple = ()) -> Iterator[tuple[tuple, str]]:
    """(path, text) of every string in a YAML file."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from leaves(item, (*path, key))
    if isinstance(value, str):
        yield path, value


def replaced(value: object, path: tuple, new: str) -> object:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def test_every_value_in_a_command_is_quoted(repository):
    for name, block in rule_blocks(repository).items():
        command = SHELL_RULE.search(block).group(1)
        fields = list(string.Formatter().parse(command))
        assert fields and all(spec == "q" for _, field, spec, _ in fields if field is not None), f"{name}: {command}"
        assert not re.search(r"['\"]\{", command.replace('        "{', "")), f"{name}: quoted twice: {command}"


def hostile_tree(repository: Path, tmp_path: Path) -> tuple[Path, str]:
    """The repository, with hostile texts wherever people write texts, and a checkpoint in a folder with such a name."""
    tree = copy_tree(repository, tmp_path / "clone", own_reference=False)
    for path in sorted((tree / "config").glob("*/**/*.yaml")):
        content = whole = yaml.safe_load(path.read_text(encoding="utf-8"))
        for place, _ in leaves(content):
            shape = ".".join("[]" if isinstance(key, int) else str(key) for key in place)
            if shape in READ_BY_PEOPLE.get(path.relative_to(tree / "config").parts[0], ()):
                whole = replaced(whole, place, HOSTILE)
        if whole is not content:
            path.write_text(yaml.safe_dump(whole, sort_keys=False), encoding="utf-8")
    for file, columns in (("datasets", ("licence", "note")), ("languages", ("name", "family", "word_order_note"))):
        path = tree / f"config/{file}.tsv"
        header, *rows = path.read_text(encoding="utf-8").splitlines()
        order = [header.split("\t").index(column) for column in columns]
        cells = [row.split("\t") for row in rows]
        for row in cells:
            for column in order:
                row[column] = HOSTILE
        path.write_text("\n".join([header, *map("\t".join, cells)]) + "\n", encoding="utf-8")
    folder = tree / HOSTILE / "mine"
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "sentencepiece.bpe.model"):
        (folder / name).touch()
    given = yaml.safe_dump(f"{HOSTILE}/mine", width=1000, default_style='"').strip()
    (tree / "config/runs/mine.yaml").write_text(CHECKPOINT.lstrip() % given, encoding="utf-8")
    return tree, f"{HOSTILE}/mine"


def words_of(command: str, tmp_path: Path) -> list[list[str]]:
    """What the programs of one command are given, as bash hands it to them."""
    folder = tmp_path / "shell"
    if not folder.exists():
        folder.mkdir()
        for program in ("python", "torchrun", "srun"):
            (folder / program).write_text(
                '#!/bin/bash\nprintf \'%s\\0\' "$@" >> "$GIVEN"; printf \'\\n\\0\' >> "$GIVEN"\n'
            )
            (folder / program).chmod(0o755)
    given = tmp_path / "given"
    given.unlink(missing_ok=True)
    here = tmp_path / "here"
    here.mkdir(exist_ok=True)
    environment = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "GIVEN": str(given)}
    # Not the log: its folder is not there, and the redirection is the last word of every command.
    command = re.sub(r" > \S+ 2>&1$", "", command)
    done = subprocess.run(
        ["bash", "-c", command], cwd=here, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and not done.stderr, f"{command}\n{done.stderr}"
    assert not list(here.iterdir()), f"the shell wrote {list(here.iterdir())}: {command}"
    calls = given.read_bytes().decode().split("\n\0")[:-1]
    return [call.split("\0")[:-1] for call in calls]


def commands_of(printed: str) -> list[str]:
    return re.findall(
        r"^(?:Shell command: )?((?:export OMP_NUM_THREADS=\S+; )?(?:python|torchrun|srun) .* 2>&1)$", printed, re.M
    )


@pytest.mark.dag
def test_hostile_values_in_every_string_of_the_configuration_stay_words(repository, tmp_path):
    tree, folder = hostile_tree(repository, tmp_path)
    runs = "runs=[xlm-r,veco-large,veco-large-first-3,fast-align,mine]"
    targets = ("results/index.html", "results/tables/all.pdf", "exports", "cleaning", "apart", "training", "formats")
    asked = ("--dry-run", "--forceall", "--printshellcmds", "--config", "scale=smoke", runs, "--", *targets, "models")
    printed = snakemake(tree, *asked).stdout
    # A scale without a generated world looks in mirrors, which are any text.
    raw = next(iter(load_config(repository, {"scale": "small"}).datasets.values())).path
    with open(tree / "config/config.yaml", encoding="utf-8") as file:
        settings = yaml.safe_load(file) | {"mirrors": [f"{HOSTILE}/{n}" for n in range(3)], "scale": "small"}
    (tree / "config/config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    printed += snakemake(tree, "--dry-run", "--printshellcmds", "--", f"results/small/raw/{raw}").stdout

    commands = commands_of(printed)
    found = {re.search(r"workflow/scripts/(\w+)\.py", command).group(1) for command in commands}
    rules = rule_blocks(repository)
    scripts = {re.search(r"workflow/scripts/(\w+)\.py", block).group(1) for block in rules.values()}
    assert found == scripts, f"no job of {scripts ^ found} was planned: choose targets that need it"
    seen = set()
    tried = set()
    for command in commands:
        # Alike but for numbers and names: one of each will do.
        shape = (len(command.split()), re.search(r"workflow/scripts/(\w+)\.py", command).group(1))
        if "touch" not in command and shape in tried:
            continue
        tried.add(shape)
        [words] = words_of(command, tmp_path)
        assert "touch owned" not in command or any(HOSTILE in word for word in words), command
        for word in words:
            assert "touch" not in word or HOSTILE in word, f"cut: {word!r}"
            seen.update(part for part in (folder, f"{HOSTILE}/2") if word == part or word.endswith(f"={part}"))
    assert seen == {folder, f"{HOSTILE}/2"}, "the checkpoint's folder and the mirrors reach their scripts whole"
    assert not list(tree.rglob("owned"))


def test_a_hostile_name_is_refused_wherever_a_name_is_expected(repository, monkeypatch):
    """200 seeded strings in places of config/ that are not read by people: each is refused with the file's name, or is
    something that the scale does not read."""
    chance, read, check = random.Random(22), yamlfiles.read_yaml, Schemas.check
    contents: dict[str, object] = {}
    places: list[tuple[str, tuple]] = []
    change: dict[str, object] = {}

    def changed(path, shown=None):
        shown = str(shown or path)
        if shown not in contents:
            contents[shown] = read(path, shown)
            shapes = READ_BY_PEOPLE.get(kind_of(shown), ())
            for place, _ in leaves(contents[shown]):
                shape = ".".join("[]" if isinstance(key, int) else str(key) for key in place)
                if shape not in shapes:
                    places.append((shown, place))
        return change.get(shown, contents[shown])

    def checked(self, value, kind, shown, partial=False):
        if shown in change or not places:
            check(self, value, kind, shown, partial)

    for module in (load, check_tasks, compare_specs, yamlfiles):
        monkeypatch.setattr(module, "read_yaml", changed)
    load_cleaning(load_config(repository, {"scale": "smoke"}))
    monkeypatch.setattr(Schemas, "check", checked)
    datasets, languages = load_datasets("config/datasets.tsv"), load_languages("config/languages.tsv")
    monkeypatch.setattr(load, "load_datasets", lambda path, known: datasets)
    monkeypatch.setattr(load, "load_languages", lambda path: languages)
    places.sort(key=str)
    refused, until = 0, time.process_time() + 6  # of a busy machine too
    for _ in range(200):
        shown, place = chance.choice(places)
        change[shown] = replaced(contents[shown], place, chance.choice(SPELLINGS))
        try:
            config = load_config(repository, {"scale": "smoke"})
            load_cleaning(config)
            all_needs(config)
        except UserError as error:
            assert place[0] in str(error) or kind_of(shown) in str(error), f"{shown}, {place}: {error}"
            refused += 1
        change.clear()
        if time.process_time() > until:
            break
    assert refused > 10


@pytest.mark.parametrize("folder", ["{a}", "a}", "a\nb", "a\u2028b", "a\x1b[2Jb"])
def test_a_folder_that_no_rule_can_name_is_refused(repository, tmp_path, folder):
    (tmp_path / "config").symlink_to(repository / "config")
    config = load_config(tmp_path, {"scale": "smoke"})
    config.runs["mine"] = yaml.safe_load(CHECKPOINT % "x") | {"source": {"folder": folder}}
    with pytest.raises(UserError, match=r"config/runs/mine\.yaml, source\.folder: .* which no rule can name"):
        check_run(config, "mine")
