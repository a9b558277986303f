"""The claims of the papers, scale by scale: the section of the document, the numbers behind it, and a Markdown table.

Reads what evaluate_claims.py found at each scale, the own one first. A claim counts as reproduced where all of the
scales that have to agree say so: worlds of which one was never tuned on.
"""

import argparse
from pathlib import Path

from common.atomic import write_json, write_text
from common.errors import run_main
from report.ledger import combine, markdown, read_found, render


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--claims", required=True, nargs="+", type=Path, help="claims.json of each scale, the own first"
    )
    parser.add_argument("--agree", nargs="*", default=[], help="scales that have to agree; without any: the own alone")
    parser.add_argument("--out-tex", required=True, type=Path, help="the section: results/tables/claims.tex")
    parser.add_argument("--out-json", required=True, type=Path, help="everything: results/<scale>/ledger.json")
    parser.add_argument("--out-md", required=True, type=Path, help="the counts and verdicts as Markdown")
    args = parser.parse_args()
    ledger = combine([read_found(path) for path in args.claims], args.agree)
    write_json(args.out_json, ledger)
    write_text(args.out_tex, render(ledger))
    write_text(args.out_md, markdown(ledger))
    for row in ledger["summary"]:
        print(
            f"{row['name']}: " + ", ".join(f"{verdict} {number}" for verdict, number in row["counts"].items() if number)
        )


if __name__ == "__main__":
    run_main(main)
