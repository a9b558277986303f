# A notebook kept as a script: cells begin with %%, as VS Code, Jupyter (jupytext) and Spyder read them.
# It reads the collected scores with pandas and draws three figures, for one's own questions to begin from:
#
#     snakemake --cores 2 --config scores_from=reference -- scores
#     python docs/scores.py results/mini/scores.tsv results/notebook
# %%
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

arguments = sys.argv[1:] if len(sys.argv) == 3 else ["results/mini/scores.tsv", "results/notebook"]
table, out = (Path(name) for name in arguments)
if not table.exists():
    sys.exit(f"{table}: not there; to mend: the first command of this file, or python docs/scores.py FILE FOLDER")
out.mkdir(parents=True, exist_ok=True)
scores = pd.read_csv(table, sep="\t")
headline = scores[~scores.metric.str.contains("-by-")]  # the others are curves, by layer or update

# %% Every run on every task and setting: the mean over languages, then mean and deviation over seeds. Where a
# pre-training was fine-tuned twice, that deviation is of fine-tunings too.
KEY = ["task", "setting", "metric"]
by_seed = headline.groupby([*KEY, "run", "seed"]).value.mean()
by_run = by_seed.groupby([*KEY, "run"]).agg(["mean", "std"])
tasks = by_run.index.droplevel("run").unique()
figure, axes = plt.subplots(len(tasks), 1, figsize=(8, 2.4 * len(tasks)), squeeze=False, layout="constrained")
for axis, key in zip(axes[:, 0], tasks, strict=True):
    own = by_run.loc[key]
    axis.barh(own.index, own["mean"], xerr=own["std"].fillna(0))
    axis.set_title(", ".join(key))
figure.savefig(out / "runs.png")

# %% The first task by language: where the methods differ.
first = headline.set_index(KEY).loc[[tasks[0]]]
by_language = first.pivot_table("value", "language", "run")
axis = by_language.plot.bar(figsize=(9, 4), title=f"{', '.join(tasks[0])}, by language")
axis.figure.savefig(out / "languages.png", bbox_inches="tight")

# %% Retrieval by layer, where the scores have it.
layers = scores[scores.metric.str.endswith("-by-layer")]
kinds = sorted(set(zip(layers.task, layers.setting, layers.metric, strict=True)))
rows = max(len(kinds), 1)
figure, axes = plt.subplots(rows, 1, figsize=(8, 4 * rows), squeeze=False, layout="constrained")
for axis, key in zip(axes[:, 0], kinds, strict=False):
    layers.set_index(KEY).loc[[key]].groupby(["layer", "run"]).value.mean().unstack("run").plot(ax=axis, marker="o")
    axis.set_title(f"{', '.join(key)}, mean over languages and directions")
figure.savefig(out / "layers.png")
