"""Compile results/tables/all.tex with pdflatex into a PDF beside it: no auxiliary files are left, no dates go in."""

import argparse
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from common.atomic import atomic_path
from common.errors import UserError, run_main

PASSES = 3  # contents and references settle at the second; the third is for page numbers that moved


def compile_document(tex: Path, folder: Path) -> Path:
    """Run pdflatex on `tex`, in its own folder so that relative paths hold; everything it writes goes to `folder`."""
    if shutil.which("pdflatex") is None:
        raise UserError("pdflatex is not on PATH; install TeX Live (texlive-latex-recommended), or read the .tex")
    if not tex.exists():
        raise UserError(f"{tex}: no such file; make it first")
    options = ["-interaction=nonstopmode", "-halt-on-error", f"-output-directory={folder.resolve()}"]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1", "max_print_line": "1000"}
    for _ in range(PASSES):
        done = subprocess.run(
            ["pdflatex", *options, tex.name], cwd=tex.parent, env=environment, capture_output=True, check=False
        )
        if done.returncode:
            errors = re.findall(r"^! .*$|^l\.\d+ .*$", done.stdout.decode("utf-8", "replace"), re.MULTILINE)
            raise UserError(f"{tex}: pdflatex fails: {' '.join(errors[:2]) or 'see its log'}")
    return folder / f"{tex.stem}.pdf"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tex", required=True, type=Path, help="the document, for example results/tables/all.tex")
    parser.add_argument("--out", required=True, type=Path, help="the PDF to write")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pdf = compile_document(args.tex, Path(folder))
        with atomic_path(args.out) as temporary:
            shutil.copyfile(pdf, temporary)


if __name__ == "__main__":
    run_main(main)
