"""Write how often each language and pair is drawn: q proportional to p^alpha, p its share of the data.

m counts sentences for monolingual text and pairs for bitext (XLM, XLM-R). A pair that comes in
several corpora has one q, which its corpora share in proportion to their size. Of pairs with a limit (PPA) so many
count; training takes the first ones of each shard. A limit is one of pairs that the run's objectives take at all: where
those leave out short or long ones, the column `sentences` counts the others alone.

Columns: kind corpus name sentences tokens p q sha256. p and q sum to 1 within each kind. sha256 is that of the row's
manifests (of its counts, for the vocabulary), so that what rests on the data can be keyed on this file.
"""

import argparse
from pathlib import Path

from common.errors import UserError, run_main
from corpus.sampling import plan, sources_of_counts, sources_of_run, write_plan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--counts", nargs="+", type=Path, help="JSON counts of cleaning: plan for the vocabulary")
    source.add_argument("--run", type=Path, help="resolved run YAML: plan for its pre-training")
    parser.add_argument("--manifests", nargs="*", type=Path, default=[], help="with --run: manifests of its shards")
    parser.add_argument("--alpha", type=float, help="with --counts: exponent for languages, and for pairs")
    parser.add_argument("--out", type=Path, required=True, help="the plan, .tsv")
    args = parser.parse_args()
    limit = None
    if args.run:
        from common.yamlfiles import read_resolved

        run = read_resolved(args.run)
        sources, alpha = sources_of_run(run, args.run, args.manifests)
        limit = (run["data"].get("bitext") or {}).get("limit")
    else:
        if args.alpha is None:
            raise UserError("--alpha: needed with --counts; pass the scale's vocabulary.alpha")
        sources = sources_of_counts(args.counts)
        alpha = {"mono": args.alpha, "bitext": args.alpha}
    if any(not 0 <= value <= 1 for value in alpha.values()):
        raise UserError(f"alpha {alpha}: must lie between 0 (all alike) and 1 (as in the data)")
    if empty := [s for s in sources if not s.size]:
        s = empty[0]
        raise UserError(
            f"{s.kind}/{s.corpus}/{s.name}: cleaning left no sentence, or none of a length that the run takes; look at "
            "its rejects, or take it out of the data"
        )
    rows = plan(sources, alpha, limit)
    write_plan(rows, args.out)
    for row in rows:
        print(f"{row.source.kind:<7}{row.source.corpus:<14}{row.source.name:<7}p {row.p:.4f}  q {row.q:.4f}")


if __name__ == "__main__":
    run_main(main)
