"""Put an exported model on the Hugging Face Hub. What would be sent, and where, is printed first; --yes sends it.

    python workflow/scripts/push.py results/mini/exported/xlm-r/seed-1 --to user/xlm-r
    python workflow/scripts/push.py results/mini/exported/xlm-r/seed-1 --to user/xlm-r --yes

Sending needs huggingface_hub (pip install huggingface_hub) and a token (`hf auth login`, or HF_TOKEN). A repository
that is not there yet is made, and is private: read the licences of the training data before you open it.
`make push RUN=xlm-r TO=user/xlm-r` is the same, and exports the model first.
"""

import argparse
import re
from pathlib import Path

from common.errors import UserError, run_main

NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)  # of the hub, which looks closer itself
NEEDED = ("README.md", "config.json", "model.safetensors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what export_model.py has written")
    parser.add_argument("--to", required=True, help="user/name, of the hub")
    parser.add_argument("--yes", action="store_true", help="send it")
    args = parser.parse_args()
    files = files_of(args.folder)
    if not NAME.fullmatch(args.to):
        raise UserError(f"--to {args.to}: is no name of the hub; give user/name")
    print(preview(args.folder, files, args.to), flush=True)
    if args.yes:
        print(f"sent: {send(args.folder, files, args.to)}")
    else:
        print("Nothing was sent. The same with --yes (make push: YES=1) sends it.")


def files_of(folder: Path) -> list[Path]:
    for name in NEEDED:
        if not (folder / name).is_file():
            raise UserError(f"{folder}: has no {name}, so it is no exported model; export it first (docs/exports.md)")
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def preview(folder: Path, files: list[Path], to: str) -> str:
    sizes = [path.stat().st_size for path in files]
    lines = [f"{size:>15,} bytes  {path.relative_to(folder)}" for path, size in zip(files, sizes, strict=True)]
    parts = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    if len(parts) < 3:
        raise UserError(f"{folder}/README.md: has no head between lines of ---; export the model again")
    return "\n".join(
        [
            f"{folder} -> https://huggingface.co/{to} (private, where it is new)",
            *lines,
            f"{sum(sizes):>15,} bytes  in all",
            "",
            "The head of README.md, which the hub reads:",
            parts[1],
        ]
    )


def send(folder: Path, files: list[Path], to: str) -> str:
    try:
        from huggingface_hub import HfApi, get_token
    except ModuleNotFoundError:
        raise UserError("huggingface_hub is not installed; pip install huggingface_hub") from None
    if not get_token():
        raise UserError("no token of the hub: hf auth login, or set HF_TOKEN")
    api = HfApi()
    try:
        api.create_repo(to, private=True, exist_ok=True)
        names = [path.relative_to(folder).as_posix() for path in files]
        done = api.upload_folder(
            repo_id=to, folder_path=folder, allow_patterns=names, commit_message="Upload of a model of Parallax"
        )
    except (OSError, ValueError) as error:  # those of huggingface_hub for what the hub answers are of these kinds
        raise UserError(f"{to}: the hub did not take it: {' '.join(str(error).split())}") from None
    return str(done)


if __name__ == "__main__":
    run_main(main)
