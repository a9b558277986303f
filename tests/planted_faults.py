"""Would the tests notice? Faults planted in the code one at a time, each in a copy of the repository.

    python tests/planted_faults.py                      all of them, in an order drawn by --seed
    python tests/planted_faults.py --only metrics mask  those whose file or name holds one of these words

Of each: a line with the fault, the test files that should notice it, and `caught` or `missed`; the exit status is 1 if
one is missed. Caught means that a test fails, not that the tests cannot be read. A file's tests stop at the first that
fails, and before that the same files have to pass without any fault (--trust leaves this out).
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SECONDS = 1200  # of one file's tests, after which they hang


@dataclass(frozen=True)
class Fault:
    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]  # of tests/test_*.py

    @property
    def place(self) -> str:
        return self.file.removeprefix("workflow/").removeprefix("scripts/")


def fault(what: str, file: str, old: str, new: str, *tests: str) -> Fault:
    return Fault(what, f"workflow/{file}" if file.startswith("rules/") else f"workflow/scripts/{file}", old, new, tests)


FAULTS = (
    # scores
    fault("tags that begin with S do not start anew", "engine/metrics.py", ' or tag.startswith("S")', "", "metrics"),
    fault("an entity goes on as another type", "engine/metrics.py", '(prefix != "I" or own != kind)', 'prefix != "I"',
          "entities"),
    fault("a German article less", "engine/answers.py", "|der|die|das|den|dem|des)", "|der|die|das|den|dem)",
          "answers"),
    fault("half of the error rate's denominator", "engine/alignments.py",
          "1 - (of_sure + of_possible) / (links + sure)", "1 - (of_sure + of_possible) / (2 * sure)", "alignments"),
    fault("equal margins in the order they came", "engine/mining.py", "key=lambda one: (-one[0], one[1], one[2])",
          "key=lambda one: -one[0]", "mining"),
    fault("a threshold between equal scores", "engine/mining.py",
          "if following == score and number < len(ordered):", "if False:", "mining"),
    fault("lower case of all letters, not of A to Z", "engine/bleu.py", ".translate(LOWER) for", ".lower() for",
          "bleu"),
    fault("the highest number among equal neighbours", "engine/retrieval.py",
          "(rounded.long() << 32) + (LAST - numbers)", "(rounded.long() << 32) + numbers", "retrieval"),
    fault("nouns before verbs in multi-word tokens", "tasks/conllu.py", 'PRECEDENCE = ("VERB", "NOUN",',
          'PRECEDENCE = ("NOUN", "VERB",', "tasks"),
    fault("items above the line kept to whole numbers", "report/scores.py", "FINE = 10_000", "FINE = 10", "score"),
    fault("the last of equally good dev scores", "training/finetuning.py", "if best is None or mean > best[0]:",
          "if best is None or mean >= best[0]:", "finetune"),
    # pre-training
    fault("a rate of sampling twice smoothed", "corpus/sampling.py", "** alpha[kind] if", "** (alpha[kind] / 2) if",
          "sampling"),
    fault("a limit on pairs also for single languages", "corpus/sampling.py",
          'min(size, limit) if limit and kind == "bitext" else size', "min(size, limit) if limit else size",
          "sampling"),
    fault("a short document without a masked token", "engine/corruption.py",
          "np.maximum(1, np.floor(rate * sizes + u))", "np.floor(rate * sizes + u)", "data"),
    fault("<mask> among the random replacements", "engine/corruption.py", "pieces = vocabulary - 1 - FIRST_PIECE",
          "pieces = vocabulary - FIRST_PIECE", "data"),
    fault("a random token where the own one is kept", "engine/corruption.py",
          "np.where(fate < spec.mask + spec.random, random_token, tokens[where])", "random_token", "data"),
    fault("rows of packing that hold too much", "engine/data.py", "left = room - length\n",
          "left = room - length + 1\n", "data"),
    fault("the next epoch in the order of the last", "engine/streams.py",
          "self.order = generator(self.seed, self.key, self.epoch, shard)",
          "self.order = generator(self.seed, self.key, 0, shard)", "data"),
    fault("second sides that number on", "engine/data.py", "out[second] += FIRST_POSITION - first[second]",
          "out[second] += 0", "data"),
    fault("masks of the other side see each other", "engine/attention_rules.py",
          "return query.selected & key.selected & (query.side == key.side)", "return query.selected & key.selected",
          "ernie_m"),
    fault("a decoder that looks ahead", "engine/attention_rules.py", "& (key.position <= query.position)",
          "& (key.position >= 0)", "veco", "seq2seq"),
    fault("weight decay of LayerNorms", "engine/optim.py",
          'decayed = not (name.endswith("bias") or id(parameter) in norms)',
          'decayed = not name.endswith("bias")', "engine", "pretrain"),
    fault("a rate that does not reach 0", "engine/optim.py", "(steps - step) / max(1, steps - warmup_steps)",
          "(steps - step) / max(1, steps)", "engine", "pretrain"),
    fault("momentum the wrong way round", "engine/objectives/contrast.py", "key.lerp_(query, 1 - momentum)",
          "key.lerp_(query, momentum)", "contrast"),
    fault("a queue that forgets where its oldest key is", "engine/objectives/contrast.py",
          "self.pointer.copy_((self.pointer + len(keys_ND)) % len(self.queue))", "self.pointer.zero_()", "contrast"),
    fault("columns of an alignment that sum to 1, not rows", "engine/objectives/dwa.py",
          "pi_PXY = pi_PXY / pi_PXY.sum(2, keepdim=True).clamp(min=tiny)", "pi_PXY = pi_PXY", "dwa"),
    fault("a detector that is told the original tokens", "engine/objectives/rtd.py",
          "discriminator_states(model.encoder, batch, seen_BT, mask)",
          "discriminator_states(model.encoder, batch, batch.original, mask)", "xlm_e"),
    fault("gradients of two processes that are not summed", "engine/dist.py",
          "        distributed.all_reduce(flat)\n", "", "pretrain"),
    fault("a decoder's blocks for nothing in the cost", "engine/cost.py",
          "block += 8 * h * h + 4 * s * h if own.cross else 0", "block += 0", "cost"),
    # what the plan passes on
    fault("licences of the command line that a script does not hear", "resolve_run.py",
          'arguments.scale, "runs", arguments.licences)', 'arguments.scale, "runs")', "real_scale"),
    fault("a damaged test file that is indexed", "index_eval_sets.py",
          '        check_sum(path, "delete it, and run again: what it lacks would be left in the corpus")\n',
          "        pass\n", "wrong_gold"),
    fault("a lead below zero in a claim", "plan/check_claims.py",
          "value is not None and value <= 0 for value", "value is not None and value <= -1000 for value", "claims"),
    fault("a run file that the weights are not of", "export_model.py",
          "if name and known and known != (found", "if False and known != (found", "export"),
    fault("seeds of one pre-training as if of several", "report/tables.py",
          "if trained_as(context.config, *key) is None and len(trainings) < len(results.by_seed):", "if False:",
          "tables"),
    # translation
    fault("no length penalty", "engine/beam.py", "score / length**penalty", "score", "beam"),
    fault("an end from outside the beam", "engine/beam.py", "elif rank < beam:", "else:", "beam"),
    # text
    fault("every line that follows a duplicate is one", "corpus/cleaning.py",
          "np.where(self.places[at] == places, self.found[at], 0)", "self.found[at]", "cleaning"),
    fault("test sentences on the second side of a pair", "clean_bitext.py",
          "either([leaked(side, index) for side in words])", "leaked(words[0], index)", "cleaning"),
    fault("the first reason of a line is overwritten", "corpus/cleaning.py", "self.reason[self.open & lines]",
          "self.reason[lines]", "cleaning"),
    fault("alignments that do not grow along diagonals", "engine/ibm2.py",
          "(1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))", "(1, 0), (0, 1))", "ibm2", "fast_align"),
    # files
    fault("a download whose sum is wrong", "fetching/checks.py", "elif sha256 != expected.sha256:", "elif False:",
          "download"),
    fault("weights with a changed byte", "engine/checkpoint.py", "if digest.hexdigest() != known:", "if False:",
          "faults"),
    fault("a temporary file that stays after a failure", "common/atomic.py",
          "            temporary.unlink()", "            pass", "faults"),
    fault("one type of token for a model of BERT that knows two", "export_model.py",
          "if model.token_types > 1:\n        return weights", "if True:\n        return weights", "export"),
    fault("pickles before safetensors", "import_checkpoint.py", "for name in WEIGHTS:",
          "for name in reversed(WEIGHTS):", "import"),
    # the plan
    fault("no English among the languages that are trained on", "plan/recipes.py",
          'if code in languages or code == "en"]', "if code in languages]", "plan"),
    fault("weights of another name are other weights", "common/identity.py", '("name", "paper",', '("paper",',
          "runs", "config"),
    fault("an import's import that counts as no code", "plan/code.py",
          "todo += _imported_files(path, Path(script).parent)",
          "todo += _imported_files(Path(script), Path(script).parent)", "plan", "config", "dag"),
    fault("one node's GPUs in the bill of several", "billing/pricing.py", "return own.gpu * own.nodes",
          "return own.gpu", "bill"),
    fault("an edit of predict.py throws its predictions away", "rules/evaluate.smk",
          'script=ancient("workflow/scripts/predict.py")', 'script="workflow/scripts/predict.py"', "dag"),
    fault("an edit of what score.py imports scores nothing again", "rules/evaluate.smk",
          '        code=code("score"),\n', "", "dag"),
    # the report
    fault("a deviation of all instead of a sample", "report/intervals.py", "by_training.var(ddof=1)",
          "by_training.var(ddof=0)", "claims"),
    fault("a claim of which one link fails stands", "report/verdicts.py", "if NOT_REPRODUCED in decided:",
          "if set(decided) == {NOT_REPRODUCED}:", "claims"),
    fault("bold for what learnt nothing", "report/tables.py",
          "if row.cells[index].summary and not row.cells[index].no_best:", "if row.cells[index].summary:", "tables"),
    fault("gradients of what is cut are averaged", "engine/dist.py", "set_gradient_divide_factor(1.0)",
          "set_gradient_divide_factor(2.0)", "every_mix"),
    fault("a large gradient is left out of the sum", "engine/dist.py", "        while self.left:\n",
          "        while self.left[1:]:\n", "every_mix"),
    fault("a look more for each job that has ended", "watch/looks.py", "if second not in awaited:", "if True:",
          "looks"),
    fault("time left as if on one core", "watch/events.py", "work / max(state.cores, state.most_running)", "work",
          "daily"),
    fault("a score of 101 per cent", "report/scores.py", "if not 0 <= value <= 100:", "if not 0 <= value:", "scores"),
    fault("a duplicate before its original in the world", "world/dirt.py", "at = rng.randint(where + 1, len(texts))",
          "at = rng.randint(0, len(texts))", "world"),
    # what verdicts and kept scores rest on
    fault("a failure that stays one keeps its last try", "finetune.py", "if not tries or reached > max(tries):",
          "if True:", "finetune"),
    fault("a try after the first that draws the same", "finetune.py",
          'again = f", restart {restarts}" if restarts else ""', 'again = ""', "finetune"),
    fault("the layer of the tables where the paper reads another", "plan/claimed.py",
          "return papers if papers != tables else None", "return None", "claims"),
    fault("costs without those of the runs that a run starts from", "plan/claimed.py",
          "runs = with_ancestors(config, named & {*config.pretrained})", "runs = sorted(named & {*config.pretrained})",
          "claims"),
    fault("FLOPs of a run without those of its start", "report/run_flops.py", "for name in lineage(config, run):",
          "for name in [run]:", "claims"),
    fault("worlds that say the opposite are merely undecided", "report/ledger.py",
          "if any(held) and NOT_REPRODUCED in verdicts:", "if all(held) and NOT_REPRODUCED in verdicts:", "claims"),
    fault("corrected values that do not rise with the values", "report/intervals.py",
          "least = min(least, p_values[i] * len(p_values) / (len(p_values) - above))",
          "least = p_values[i] * len(p_values) / (len(p_values) - above)", "claims"),
    fault("a correction that leaves verdicts as they were", "report/verdicts.py", "p > 1 - LEVEL and claim",
          "p > LEVEL and claim", "claims"),
    fault("scores of an older configuration kept as today's", "keep_reference.py",
          "if not known or not is_current(config, path.absolute()):", "if not known:", "reference"),
    fault("a printed number that stands for a whole last digit", "report/audit_numbers.py",
          "if decimals is None else decimals) / 2", "if decimals is None else decimals)", "audit"),
    fault("an old plan after a file of config/ has changed", "plan/kept.py",
          "            whole.update(content)\n", "", "kept"),
    # what no test saw when it was planted by chance
    fault("a fine-tuning without its warm-up", "training/finetuning.py",
          "round((hyper.warmup_fraction or 0) * updates)",
          "round((hyper.warmup_fraction or 0) / updates)", "finetune"),
    fault("pairs whose language nobody asks for", "clean_bitext.py", "if language_id is not None:",
          "if language_id is None:", "cleaning"),
    fault("another denominator for what is resampled of alignments", "engine/alignments.py",
          "return [(of_sure + of_possible, links + sure) for", "return [(of_sure + of_possible, links - sure) for",
          "score"),
    fault("the precision of each layer as its error rate", "score.py", '{**own[0], "metric"', '{**own[1], "metric"',
          "score"),
    fault("a head whose labels are in another order", "predict.py",
          'if json.loads(metadata["labels"]) != recipe.labels:',
          "if False:", "finetune"),
    fault("an empty span less than there is room for", "engine/objectives/seq2seq.py", "np.cumsum(empty, 1) > room",
          "np.cumsum(empty, 1) >= room", "seq2seq"),
)  # fmt: skip


def plant(one: Fault, tree: Path) -> None:
    path = tree / one.file
    text = path.read_text(encoding="utf-8")
    assert text.count(one.old) == 1, f"{one.file} holds {one.old!r} {text.count(one.old)} times: mend the list"
    path.write_text(text.replace(one.old, one.new), encoding="utf-8")


def copied(to: Path) -> Path:
    """What git knows or would take, as a repository of its own: some tests ask git."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (REPOSITORY / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            (to / name).write_bytes((REPOSITORY / name).read_bytes())
            (to / name).chmod((REPOSITORY / name).stat().st_mode)
    for command in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *command], cwd=to, check=True, capture_output=True)
    return to


def tested(tests: tuple[str, ...], tree: Path) -> tuple[int, str]:
    """pytest's status of these files, at most one failure; and the test that failed."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    for name in tests:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"tests/test_{name}.py"]
        command += ["--basetemp", str(tree.parent / "basetemp")]
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        if done.returncode:
            failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
            return done.returncode, failed[1].removeprefix("tests/") if failed else done.stdout[-2000:] + done.stderr
    return 0, ""


def tried(one: Fault | None, tests: tuple[str, ...]) -> tuple[int, str, float]:
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        tree = copied(Path(folder) / "tree")
        if one:
            plant(one, tree)
        began = time.monotonic()
        status, failed = tested(tests, tree)
        return status, failed, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], help="words of the file, the tests or the description")
    parser.add_argument("--seed", type=int, default=1, help="of the order (default: %(default)s)")
    parser.add_argument("--at-once", type=int, default=2, help="faults that are tried at once (default: %(default)s)")
    parser.add_argument("--trust", action="store_true", help="do not run the tests without a fault first")
    args = parser.parse_args()
    chosen = [
        one for one in FAULTS
        if not args.only or any(word in f"{one.file} {one.what} {' '.join(one.tests)}" for word in args.only)
    ]  # fmt: skip
    random.Random(args.seed).shuffle(chosen)
    missed = 0
    with ThreadPoolExecutor(args.at_once) as pool:
        if not args.trust:
            files = sorted({name for one in chosen for name in one.tests})
            for name, (status, failed, _) in zip(files, pool.map(lambda one: tried(None, (one,)), files), strict=True):
                if status:
                    sys.exit(f"error: tests/test_{name}.py does not pass as it is: {failed}; mend that first")
        print("| Fault | Where | Found by | |\n|---|---|---|---|", flush=True)
        results = pool.map(lambda one: tried(one, one.tests), chosen)
        for one, (status, failed, seconds) in zip(chosen, results, strict=True):
            found = {0: "missed", 1: "caught"}.get(status, "unreadable")
            missed += found != "caught"
            shown = failed if found == "caught" else ", ".join(f"test_{name}.py" for name in one.tests)
            print(f"| {one.what} | {one.place} | {shown} | {found}, {seconds:.0f} s |", flush=True)
            if found == "unreadable":
                print(failed, file=sys.stderr)
    print(f"\n{len(chosen) - missed} of {len(chosen)} caught")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
