"""Draw README's picture, docs/real.svg: figure parallax/real-points of the reference scores.

python docs/picture.py
"""

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "workflow/scripts"))

from report.context import load_context  # noqa: E402
from report.figure_style import save  # noqa: E402
from report.figures import draw  # noqa: E402


def write(out: Path) -> None:
    scores = REPOSITORY / "reference/scores/real"
    context, _, figures = load_context(REPOSITORY / "config/config.yaml", "real", scores, ["scores_from=reference"])
    save(draw(figures["parallax/real-points"], context), out, "svg")


if __name__ == "__main__":
    write(REPOSITORY / "docs/real.svg")
