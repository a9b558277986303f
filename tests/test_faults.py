"""Full disks, changed bytes, lost processes, two at once: a clear error or a right result, never another number.

Kills at random moments of the whole workflow are those of tests/faults/kill.py (`make faults`).
"""

import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import yaml
from safetensors import safe_open
from safetensors.torch import load_file

import pretrain
import ready
import score
import summarise_training
from common.atomic import SUMS, atomic_folder, atomic_path, check_folder, write_json, write_sealed, write_text
from common.errors import UserError
from corpus.corpusio import read_lines, zst_writer
from download import download
from engine.checkpoint import load_state, load_weights, save_state, save_weights, sole_use
from engine.shards import array_path, sha256_of, verify_shards
from fetching.sources import Mirror
from plan.datasets import Dataset, load_datasets
from report import scores, trainings
from small_corpus import write_run, write_sentences
from small_results import COST, entry, make_world, write, write_files
from small_training import command, losses, train, trained
from training.assembly import read_plan
from trees import copy_tree, edit

SCRIPTS = Path(pretrain.__file__).parent
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


# --- a disk that is full ----------------------------------------------------------------------------------------------


@dataclass
class Disk:
    """A place with little room: a small file system of its own, or a limit on the size of files."""

    folder: Path
    limited: bool
    says: str

    def run(self, *arguments: object, room: int | None = None) -> subprocess.CompletedProcess:
        """A script; with so many bytes of room, or with enough."""
        ballast, limit = self.folder / "ballast", None
        if room is not None and self.limited:

            def limit() -> None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

        elif room is not None:
            free = shutil.disk_usage(self.folder).free
            ballast.write_bytes(bytes(max(0, free - room)))
        try:
            words = [sys.executable if limit else ready.python(), *map(str, arguments)]
            return subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT, preexec_fn=limit, timeout=600)
        finally:
            ballast.unlink(missing_ok=True)


@pytest.fixture
def own_mount(tmp_path) -> Iterator[tuple[Path, Callable[[str], None]]]:
    """A file system of 2 MB in a mount namespace of its own, seen from here through /proc; and a way to change it."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("only root may mount a file system")
    point = tmp_path / "mount"
    point.mkdir()
    holder = subprocess.Popen(
        ["unshare", "--mount", "sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

    def tell(line: str) -> None:
        holder.stdin.write(f"{line} && echo done || echo failed\n")
        holder.stdin.flush()
        if holder.stdout.readline().strip() != "done":
            pytest.skip("this machine does not let a test mount a file system")

    try:
        tell(f"mount -t tmpfs -o size=2m none {point}")
        yield Path(f"/proc/{holder.pid}/root{point}"), tell
    finally:
        holder.stdin.close()
        holder.wait(10)


@pytest.fixture(params=["full", "limited"])
def disk(request, tmp_path) -> Disk:
    if request.param == "limited":
        return Disk(tmp_path, True, "ulimit -f")
    folder, _ = request.getfixturevalue("own_mount")
    return Disk(folder, False, "the disk is full")


def refused(disk: Disk, arguments: list, out: Path, room: int, old: bytes | None = b"old") -> None:
    """Without room: one line that names file and mend, what was there is there, and nothing else. Then with room."""
    out.parent.mkdir(parents=True, exist_ok=True)
    if old is not None:
        out.write_bytes(old)
    before = sorted(path.name for path in out.parent.iterdir())
    done = disk.run(*arguments, room=room)
    assert done.returncode == 2, (done.returncode, done.stderr)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ") and disk.says in last and "run again" in last, done.stderr
    assert str(out.parent) in last
    assert sorted(path.name for path in out.parent.iterdir()) == before
    assert old is None or out.read_bytes() == old
    done = disk.run(*arguments)
    assert done.returncode == 0, done.stderr
    assert out.exists() and out.read_bytes() != old


def test_a_download_without_room(disk, tmp_path, repository):
    header = (repository / "config/datasets.tsv").read_text().splitlines()[0].split("\t")
    row = dict.fromkeys(header, "") | {
        "id": "x",
        "url": "https://a.b/c.txt",
        "kind": "train",
        "languages": "de",
        "licence": "MIT",
    }
    table = tmp_path / "datasets.tsv"
    table.write_text("\t".join(header) + "\n" + "\t".join(row[name] for name in header) + "\n")
    source = tmp_path / "mirror/a.b/c.txt"
    source.parent.mkdir(parents=True)
    source.write_bytes(random.Random(1).randbytes(200_000))
    options = ["--dataset", "x", "--datasets", table, "--unchecked-mirror", tmp_path / "mirror", "--offline"]
    out = disk.folder / "raw/c.txt"
    refused(disk, [SCRIPTS / "download.py", *options, "--out", out], out, 50_000)
    assert out.read_bytes() == source.read_bytes()


def test_a_shard_without_room(disk, tmp_path, corpus):
    text = tmp_path / "0.clean.txt.zst"
    with zst_writer(text) as lines:
        lines.writelines("aabb ccdd eeff gghh\n" for _ in range(8000))
    out = disk.folder / "shards/0.json"
    options = ["--text", text, "--vocabulary", corpus / "spm.model", "--out", out]
    refused(disk, [SCRIPTS / "encode_corpus.py", *options], out, 50_000)
    verify_shards([out])


def test_a_score_without_room(disk, tmp_path):
    (tmp_path / "labels.tsv").write_text("neutral\nentailment\n" * 3)
    files = ["--gold", tmp_path / "labels.tsv", "--predictions", tmp_path / "labels.tsv"]
    out = disk.folder / "scores/score.json"
    arguments = [SCRIPTS / "score.py", "--task", "xnli", "--language", "de", *files, "--out", out]
    refused(disk, arguments, out, 100 if disk.limited else 0)


def test_collected_scores_without_room(disk, tmp_path):
    root = tmp_path / "scores"
    for seed in range(1, 4):
        write(root, [entry(code, 50.0 + seed) for code in ("de", "en", "fr", "hi", "zh")], seed=seed)
    out = disk.folder / "out/scores.tsv"
    arguments = [SCRIPTS / "collect_scores.py", "--all", "--scale", "mini", "--scores-root", root, "--out", out]
    refused(disk, arguments, out, 100 if disk.limited else 0)


def test_a_checkpoint_without_room_and_then_with(disk, corpus, tmp_path):
    """Neither a checkpoint nor the last weights; the next call gives the weights of an undisturbed one."""
    expected = trained(corpus, tmp_path / "whole", steps=12)
    folder = disk.folder / "run"
    folder.mkdir()
    write_run(folder / "run.yaml", steps=12)
    arguments = command(corpus, folder)[1:]
    done = disk.run(*arguments, room=60_000)
    assert done.returncode == 2 and disk.says in done.stderr and "step-" in done.stderr, done.stderr
    assert not list(folder.rglob("step-*")) and not list(folder.rglob("*.tmp"))
    write_run(folder / "run.yaml", steps=12, checkpoint={"every_steps": 100})
    done = disk.run(*arguments, room=14_000 if disk.limited else 8_000)
    assert done.returncode == 2 and disk.says in done.stderr, done.stderr
    assert not (folder / "model.safetensors").exists() and not list(folder.rglob("*.tmp"))
    write_run(folder / "run.yaml", steps=12)
    done = disk.run(*arguments)
    assert done.returncode == 0, done.stderr
    found = load_file(folder / "model.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def test_a_folder_that_is_read_only(own_mount):
    folder, tell = own_mount
    write_text(folder / "out.txt", "old")
    tell(f"mount -o remount,ro none {str(folder).partition('/root')[2]}")
    for act in (
        lambda: write_text(folder / "out.txt", "new"),
        lambda: write_json(folder / "below/out.json", {}),
        lambda: save_weights(folder / "w.safetensors", {"a": torch.zeros(2)}, {}),
        lambda: save_state(folder, 1, {"step": 1}, 2),
        lambda: atomic_folder(folder / "predictions").__enter__(),
        lambda: sole_use(folder / "state").__enter__(),
    ):
        with pytest.raises(UserError, match=r"the file system is read-only; mount it writable"):
            act()
    assert (folder / "out.txt").read_text() == "old" and len(list(folder.iterdir())) == 1


def test_no_permission():
    """As a user who may read and not write there."""
    code = (
        f"import os, sys; sys.path.insert(0, {str(SCRIPTS)!r})\n"
        "from common.atomic import write_text\nfrom common.errors import run_main\n"
        "os.geteuid() == 0 and os.setuid(65534)\n"
        "run_main(lambda: write_text(sys.argv[1], 'new'))"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "out.txt").write_text("old")
        folder.chmod(0o555)
        done = subprocess.run([sys.executable, "-c", code, folder / "out.txt"], capture_output=True, text=True)
        folder.chmod(0o755)
        assert done.returncode == 2, done.stderr
        assert f"error: {folder / 'out.txt'}: no permission to write there" in done.stderr
        assert (folder / "out.txt").read_text() == "old"


def test_an_input_that_cannot_be_read_is_not_taken_for_the_output(tmp_path):
    with pytest.raises(PermissionError), atomic_path(tmp_path / "out/file"):
        raise PermissionError(13, "Permission denied", str(tmp_path / "input"))


# --- changed bytes ----------------------------------------------------------------------------------------------------


def damages(path: Path, number: int, seed: int = 1) -> Iterator[str]:
    """The file damaged at so many random places, one after another: bits flipped, bytes replaced, the end cut off."""
    whole = path.read_bytes()
    rng = random.Random(f"{seed}/{path.name}")
    try:
        for i in range(number):
            place = rng.randrange(len(whole))
            if i % 5 == 4:
                path.write_bytes(whole[:place])
                yield f"cut at {place}"
                continue
            new = whole[place] ^ (1 << rng.randrange(8)) if i % 5 < 3 else rng.randrange(256)
            path.write_bytes(whole[:place] + bytes([new]) + whole[place + 1 :])
            yield f"byte {place}: {whole[place]} -> {new}"
    finally:
        path.write_bytes(whole)


def never_another(path: Path, read: Callable[[], object], number: int = 150, named: str | None = None) -> int:
    """Whatever was damaged, the reader says so with the file's name, or understands the same. How often it said so."""
    expected, said = read(), 0
    for damage in damages(path, number):
        try:
            found = read()
        except UserError as error:
            assert (named or path.name) in str(error) and re.search("again|delete|restore", str(error)), (damage, error)
            said += 1
        else:
            assert found == expected, damage
    return said


@pytest.mark.parametrize("file", ["0.json", "0.tokens.bin", "0.sentences.bin", "0.documents.bin"])
def test_a_changed_byte_of_a_shard(tmp_path, file):
    """What a training does before its first step."""
    folder = tmp_path / "mono/cc-100/de"
    manifest = folder / "0.json"
    write_sentences(manifest, "mono", 3, 40)
    plan = tmp_path / "plan.tsv"
    plan.write_text(f"kind\tcorpus\tname\tq\tsha256\nmono\tcc-100\tde\t1\t{sha256_of(manifest)}\n")

    def read() -> list[bytes]:
        sources, _ = read_plan(plan, tmp_path)
        verify_shards(sources["mono"][0].manifests)
        return [array_path(manifest, array).read_bytes() for array in ("tokens", "sentences", "documents")]

    assert never_another(folder / file, read, named=str(folder)) >= 130


def test_each_shard_is_verified_on_one_of_the_ranks(tmp_path):
    manifests = [tmp_path / f"{number}.json" for number in range(5)]
    for number, manifest in enumerate(manifests):
        write_sentences(manifest, "mono", number, 5)
    for manifest in manifests:
        tokens = array_path(manifest, "tokens")
        for _ in damages(tokens, 1):
            complaining = 0
            for rank in range(3):
                try:
                    verify_shards(manifests, rank, 3)
                except UserError as error:
                    assert str(tokens) in str(error)
                    complaining += 1
            assert complaining == 1


def test_a_training_refuses_a_changed_shard(corpus, tmp_path):
    write_run(tmp_path / "run.yaml")
    path = next((corpus / "shards").rglob("1.tokens.bin"))
    for _ in damages(path, 1):
        done = train(corpus, tmp_path)
        assert done.returncode == 2 and str(path) in done.stderr
        assert f"delete {path.with_name('1.json')} and encode the shard again" in done.stderr
    assert train(corpus, tmp_path).returncode == 0


def test_a_changed_byte_of_a_checkpoint(tmp_path, capsys):
    """Every damage is noticed, and the checkpoint before is taken."""
    states = [{"step": step, "model": {"a": torch.arange(64.0) + step}, "totals": {"x": 0.5}} for step in (1, 2)]
    for state in states:
        save_state(tmp_path, state["step"], state, 2)
    newest = max(tmp_path.glob("step-*.pt"))
    for damage in damages(newest, 100):
        found = load_state(tmp_path)
        same = newest.exists()  # a byte that was replaced by itself
        assert found["step"] == (2 if same else 1), damage
        assert torch.equal(found["model"]["a"], states[found["step"] - 1]["model"]["a"])
        assert same or "trying the checkpoint before it" in capsys.readouterr().err
        newest.with_suffix(".unreadable").unlink(missing_ok=True)
    assert load_state(tmp_path)["step"] == 2


def test_a_checkpoint_without_a_sum_is_still_read(tmp_path):
    torch.save({"step": 7}, tmp_path / "step-000000007.pt")
    assert load_state(tmp_path) == {"step": 7}
    save_state(tmp_path, 8, {"step": 8}, 2)
    assert load_state(tmp_path) == {"step": 8}


def test_a_changed_byte_of_weights(tmp_path):
    path = tmp_path / "model.safetensors"
    tensors = {"a": torch.arange(100.0).reshape(10, 10), "b": torch.ones(7, dtype=torch.bfloat16)}
    save_weights(path, tensors, {"model": "{}", "vocabulary_sha256": "0" * 64, "run": "ä"})

    def read() -> list:
        weights, metadata = load_weights(path)
        return [*((name, str(tensor.dtype), tensor.tolist()) for name, tensor in sorted(weights.items())), metadata]

    assert never_another(path, read, 300) >= 250
    weights, metadata = load_weights(path)
    assert metadata == {"model": "{}", "vocabulary_sha256": "0" * 64, "run": "ä"}
    assert all(torch.equal(weights[name], tensor) for name, tensor in tensors.items())
    with safe_open(path, "pt") as file:  # and for everyone else it is a safetensors file
        assert len(file.metadata()["sha256"]) == 64


def test_a_changed_byte_of_a_score_file(tmp_path):
    path = write(tmp_path, [entry("de", 71.0625, layer=None), entry("en", 80.0)])
    write_sealed(path, json.loads(path.read_text()))
    assert never_another(path, lambda: scores.scores_of(scores.read_content(path, "mini"), path), 600) >= 300


def test_a_changed_byte_of_the_items_of_a_score(tmp_path):
    items = {"de": {"accuracy": scores.packed_items([(i % 2, 1) for i in range(200)])}}
    path = write(tmp_path, [entry("de", 50.0)], items=items)
    write_sealed(path, json.loads(path.read_text()))
    read = lambda: scores.items_of(scores.read_content(path, "mini"), "de", "accuracy")  # noqa: E731
    assert never_another(path, read, 300) >= 150


def test_scores_without_a_checksum_are_read(tmp_path, repository):
    path = write(tmp_path, [entry("de", 71.0)])
    assert "checksum" not in path.read_text() and scores.read_score_file(path)[0].value == 71.0
    kept = sorted((repository / "reference/scores").rglob("seed-*.json"))
    assert kept and all(scores.read_score_file(path) for path in kept[:50])


@pytest.mark.parametrize("file", ["cost.json", "train.jsonl"])
def test_a_changed_byte_of_what_a_training_says_of_itself(tmp_path, file):
    files = write_files(tmp_path, 60)
    cost = json.loads(files["cost.json"].read_text()) | {"log_sha256": sha256_of(files["train.jsonl"])}
    write_sealed(files["cost.json"], cost)

    def read() -> dict:
        found = summarise_training.summarise(files["run.yaml"], files["cost.json"], files["train.jsonl"], 1, "mini")
        return found | {"cost": {key: found["cost"].get(key) for key in COST}}

    made = summarise_training.summarise(files["run.yaml"], files["cost.json"], files["train.jsonl"], 1, "mini")
    assert made["cost"] == COST  # no checksums of other files
    assert never_another(files[file], read, named=str(tmp_path)) >= 50


def test_a_changed_byte_of_a_summary(tmp_path):
    files = write_files(tmp_path / "run", 60)
    made = summarise_training.summarise(files["run.yaml"], files["cost.json"], files["train.jsonl"], 2, "mini")
    path = tmp_path / "trainings/xlm/seed-2.json"
    write_sealed(path, made)
    assert never_another(path, lambda: trainings.read_training(path, "mini"), 300) >= 200


@pytest.fixture
def world(tmp_path, repository):
    return make_world(tmp_path, repository)


@pytest.mark.parametrize("file", ["test-de.tsv", "layers-fr.tsv", "predictions.json", SUMS])
def test_a_changed_byte_of_predictions(world, file):
    args = world("tatoeba", "zero-shot-retrieval")
    with atomic_folder(args.predictions) as folder:
        shutil.copytree(args.predictions, folder, dirs_exist_ok=True)
    never_another(args.predictions / file, lambda: score.score_folder(args), named=str(args.predictions))
    (args.predictions / "test-de.tsv").unlink()
    with pytest.raises(UserError, match=r"test-de\.tsv: not as it was written \(sha256 is missing"):
        score.score_folder(args)


def test_a_folder_takes_the_place_of_another_whole(tmp_path):
    for text in ("old", "new"):
        with atomic_folder(tmp_path / "out") as folder:
            (folder / "below").mkdir()
            (folder / f"below/{text}").write_text(text)
        check_folder(tmp_path / "out", "")
        assert {path.name for path in (tmp_path / "out").rglob("*")} == {"below", text, SUMS}
    with pytest.raises(ZeroDivisionError), atomic_folder(tmp_path / "out"):
        1 / 0  # noqa: B018
    assert (tmp_path / "out/below/new").exists() and [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_changed_byte_of_a_download(tmp_path):
    body = random.Random(2).randbytes(5000)
    source = tmp_path / "mirror/a.b/c.bin"
    source.parent.mkdir(parents=True)
    source.write_bytes(body)
    row = Dataset("x", "https://a.b/c.bin", (), len(body), sha256_of(source), "MIT", ("de",), "train", "")
    out = tmp_path / "out/c.bin"

    def read() -> bytes:
        out.unlink(missing_ok=True)
        try:
            download(row, out, [Mirror(str(tmp_path / "mirror"))], offline=True)
        except UserError as error:
            assert "to mend" in str(error) and not out.exists()
            raise UserError(f"{error}; again") from None
        return out.read_bytes()

    assert never_another(source, read, 60) >= 50


def test_a_changed_byte_of_a_file_after_its_download(world):
    """Of plain text, which has no checksum of its own: the gold lines of Tatoeba and the training file of another."""
    args = world("tatoeba", "zero-shot-retrieval")
    mirror = args.raw.rename(args.raw.with_name("mirror"))
    rows = [row for row in load_datasets(args.datasets).values() if (mirror / row.path).exists()]
    for row in rows:
        download(row, args.raw / row.path, [Mirror(str(mirror), checked=False)], offline=True)
    [file] = args.raw.rglob("tatoeba.deu-eng.eng")
    assert never_another(file, lambda: score.score_folder(args), 60) >= 45
    file.with_name(f".{file.name}.sha256").unlink()  # of an older version
    assert score.score_folder(args)["scores"]


def test_a_changed_byte_of_clean_text(tmp_path):
    path = tmp_path / "0.clean.txt.zst"
    with zst_writer(path) as lines:
        lines.writelines(f"line {number} of some text\n" for number in range(3000))
    assert never_another(path, lambda: list(read_lines(path))) >= 100


# --- processes that die, and processes that meet ----------------------------------------------------------------------


def start(words: list[str]) -> subprocess.Popen:
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def ranks_of(process: subprocess.Popen) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True)
    return sorted(map(int, listed.stdout.split()))


def test_a_lost_rank_ends_the_job_and_the_next_call_continues(corpus, tmp_path):
    changes = {"steps": 80, "checkpoint": {"every_steps": 5}}
    found = {}
    for name in ("whole", "lost"):
        folder = tmp_path / name
        folder.mkdir()
        write_run(folder / "run.yaml", **changes)
        words = command(corpus, folder, "--world-size", "2", launcher=ready.torchrun())
        if name == "lost":
            plainly = (sys.executable, "-m", "torch.distributed.run", *ready.on_two())  # whose children are looked at
            process = start(command(corpus, folder, "--world-size", "2", launcher=plainly))
            deadline = time.monotonic() + 300
            while not list(folder.rglob("step-*.pt")) and time.monotonic() < deadline:
                time.sleep(0.02)
            os.kill(ranks_of(process)[1], signal.SIGKILL)
            _, said = process.communicate(timeout=300)  # not the half hour of a collective
            assert process.returncode != 0 and not (folder / "model.safetensors").exists(), said
        done = subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT, timeout=600)
        assert done.returncode == 0, done.stderr
        assert ("continuing after step" in done.stderr) == (name == "lost")
        found[name] = load_file(folder / "model.safetensors")
    assert all(torch.equal(found["lost"][name], tensor) for name, tensor in found["whole"].items())


def test_ranks_that_see_different_checkpoints_stop(corpus, tmp_path):
    """A file system that lags: one rank finds a checkpoint, the other none yet."""
    write_run(tmp_path / "run.yaml", steps=12)
    code = (
        "import os, sys, pretrain\n"
        "pretrain.load_state = lambda folder: {'step': 6} if os.environ['RANK'] == '1' else None\n"
        "pretrain.run_main(pretrain.main)"
    )
    script = tmp_path / "lagging.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(SCRIPTS)!r})\n{code}")
    words = [str(script) if word.endswith("pretrain.py") else word for word in command(corpus, tmp_path)[1:]]
    done = subprocess.run([*ready.torchrun(), *words], capture_output=True, text=True, env=ENVIRONMENT, timeout=600)
    assert done.returncode != 0 and "the ranks find checkpoints of steps 0, 6" in done.stderr
    assert not (tmp_path / "model.safetensors").exists()


def test_two_trainings_of_one_run_take_turns(corpus, tmp_path):
    """Both end well, and weights and log are those of one."""
    expected = trained(corpus, tmp_path / "one", steps=100)
    folder = tmp_path / "two"
    folder.mkdir()
    write_run(folder / "run.yaml", steps=100)
    both = [start(command(corpus, folder)) for _ in range(2)]
    said = [process.communicate(timeout=600)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sum("is at work here; waiting" in text for text in said) == 1
    found = load_file(folder / "model.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    assert losses(folder) == losses(tmp_path / "one")
    assert not list((folder / "state").iterdir())


def test_a_lock_says_who_holds_it_and_dies_with_its_holder(tmp_path):
    folder = tmp_path / "state/abc"
    code = (
        f"import sys, time; sys.path.insert(0, {str(SCRIPTS)!r})\nfrom pathlib import Path\n"
        f"from engine.checkpoint import sole_use\nwith sole_use(Path({str(folder)!r})):\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(
        UserError, match=rf"process {holder.pid} on .* is training this run with this seed; wait for it"
    ):
        sole_use(folder, wait=0.3).__enter__()
    holder.kill()
    holder.wait()
    with sole_use(folder, wait=0.3):
        pass
    assert list(folder.parent.iterdir()) == []


def test_nan_in_the_weights_stops_with_the_step_and_saves_nothing(corpus, tmp_path):
    trained(corpus, tmp_path / "parent", steps=0)
    weights = load_file(tmp_path / "parent/model.safetensors")
    weights["encoder.blocks.0.attention.output.bias"][3] = float("nan")
    _, metadata = load_weights(tmp_path / "parent/model.safetensors")
    save_weights(tmp_path / "bad.safetensors", weights, metadata)
    folder = tmp_path / "child"
    folder.mkdir()
    write_run(folder / "run.yaml", steps=10, init={"run": "parent"}, checkpoint={"every_steps": 1})
    done = subprocess.run(
        command(corpus, folder, "--init", str(tmp_path / "bad.safetensors")), capture_output=True, text=True
    )
    assert done.returncode == 2
    assert re.search(r"step 1: .*gradient norm.* is not finite", done.stderr) and "Nothing was saved" in done.stderr
    assert not list(folder.rglob("step-*")) and not (folder / "model.safetensors").exists()


# --- Snakemake --------------------------------------------------------------------------------------------------------


def call(*extra: str) -> list[str]:
    own = ["--cores", "1", "--rerun-incomplete", "--config", "scale=smoke"]
    return [ready.python(), "-m", "snakemake", *own, *extra]


def in_a_session(words: list[str], options: dict) -> subprocess.Popen:
    """Its jobs with it, to be stopped and killed together."""
    return subprocess.Popen([sys.executable, *words[1:]], stderr=subprocess.DEVNULL, start_new_session=True, **options)


def wait_for_job(started: Path, process: subprocess.Popen) -> None:
    """Until its job runs: the lock is taken before that, and written whole."""
    while not started.exists():
        assert process.poll() is None
        time.sleep(0.02)


@pytest.mark.dag
def test_two_snakemakes_at_once_and_what_a_kill_leaves(repository, tmp_path):
    """The second gets an error that tells the mend, the first is right; after a kill the mend is that of the message.
    A clock that was set back makes work, and no other result."""
    tree = copy_tree(repository, tmp_path / "tree", own_reference=False)
    started, gate = tmp_path / "started", tmp_path / "gate"  # the job waits for the test, on a slow machine too
    edit(
        tree,
        "workflow/rules/sources.smk",
        "python {input.script:q} --scale",
        f"touch {started}; timeout --foreground 300 sh -c 'until test -e {gate}; do sleep 0.05; done'; "
        "python {input.script:q} --scale",
    )
    environment = ENVIRONMENT | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    options = {"cwd": tree, "env": environment, "text": True}
    manifest = "results/smoke/world/MANIFEST.tsv"
    first = in_a_session(call("--", manifest), options)
    wait_for_job(started, first)
    second = subprocess.run(call("--", manifest), capture_output=True, **options)
    gate.touch()
    assert second.returncode != 0 and "Directory cannot be locked" in second.stderr and "--unlock" in second.stderr
    assert first.wait(120) == 0
    whole = (tree / manifest).read_bytes()

    for path in [tree / manifest, started, gate]:
        path.unlink()
    killed = in_a_session(call("--", manifest), options)
    wait_for_job(started, killed)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    gate.touch()
    again = subprocess.run(call("--", manifest), capture_output=True, **options)
    assert again.returncode != 0 and "--unlock" in again.stderr
    assert subprocess.run(call("--unlock"), capture_output=True, **options).returncode == 0
    raw = next(line.split("\t")[0] for line in whole.decode().splitlines()[1:])
    targets = [manifest, f"results/smoke/raw/{raw}"]
    again = subprocess.run(call("--", *targets), capture_output=True, **options)
    assert again.returncode == 0 and (tree / manifest).read_bytes() == whole, again.stderr
    before = (tree / targets[1]).read_bytes()

    tomorrow = time.time() + 86400
    os.utime(tree / manifest, (tomorrow, tomorrow))  # written before the clock was set back
    again = subprocess.run(call("--", *targets), capture_output=True, **options)
    assert again.returncode == 0 and (tree / targets[1]).read_bytes() == before


def test_every_writer_of_the_workflow_writes_whole_files():
    """Whoever writes a result does it through atomic.py; what is opened for writing elsewhere is listed here."""
    allowed = {
        "atomic.py",
        "download.py",  # the part of a download, kept on purpose
        "pretrain.py",  # the log of a training, in its state folder
        "study.py",  # the log of a step, as a rule redirects it
        "terminal.py",  # the record of a running workflow, a line at a time
    }
    found = set()
    for path in SCRIPTS.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if re.search(r"\.write_(text|bytes)\(|open\([^)\n]*\"[wax]b?\"", text) and "atomic" not in text:
            found.add(path.name)
    assert found <= allowed, found - allowed


def test_configuration_of_the_harness_names_real_outputs(repository):
    """Each stage of tests/faults/kill.py is an output of the rule that it names."""
    sys.path.insert(0, str(repository / "tests/faults"))
    import kill

    rules = "".join(path.read_text(encoding="utf-8") for path in (repository / "workflow/rules").glob("*.smk"))
    for rule in [*kill.STAGES, *kill.EVALUATION, *kill.SINGLE]:
        assert re.search(rf"^rule {rule}\w*:$", rules, re.MULTILINE), rule
    assert yaml.safe_load(kill.TREES["workers"].scale) == {"resources": {"pretrain": {"gpu": 2}}}
