"""Train one translation model with one seed, from the weights of a run; continues after any interruption.

pretrain.py does the work, and says the rest: a translation model is a run with the objective `translation`, which
resolve_translator.py writes. Besides, the weights on the way are kept for validate_translator.py, equally spaced; the
final weights are the mean of the last few of them.
"""

from pathlib import Path

from common.errors import run_main
from pretrain import make_parser, parse_arguments, pretrain


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--snapshots", type=Path, required=True, help="folder for the weights on the way")
    return pretrain(parse_arguments(parser))


if __name__ == "__main__":
    run_main(main)
