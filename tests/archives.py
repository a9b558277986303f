"""Archives as upstream packs them, out of texts."""

import io
import tarfile
import zipfile
from pathlib import Path

from tasks import xnli


def write_tar(path: Path, files: dict[str, str], folder: str = "") -> Path:
    """Compressed as the name says."""
    with tarfile.open(path, f"w:{path.suffix.removeprefix('.').replace('tgz', 'gz')}") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(folder + name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return path


def word(index, form, tag, head="0", **_):
    return f"{index}\t{form}\t_\t{tag}\t_\t_\t{head}\tdep\t_\t_"


def xnli_row(language="de", label="neutral", premise="Ein Satz", hypothesis="Noch einer", pair="1"):
    return "\t".join(
        [language, label, "", "", "", "", premise, hypothesis, "1", pair, "g", *["neutral"] * 5, "", "", "x"]
    )


def xnli_zip(path: Path, rows: list[str], split: str = "test") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        text = "\n".join(["\t".join(xnli.XNLI_COLUMNS), *rows]) + "\n"
        archive.writestr(f"XNLI-1.0/xnli.{split}.tsv", text)
    return path


def ud_tgz(path: Path, files: dict[str, str]) -> Path:
    return write_tar(path, files, "ud-treebanks-v2.5/")


WHOLE = {"test.de": "a b\nc\n", "test.en": "x\ny z\n", "alignv2.txt": "7 1 1 S\n7 2 1 P\n3 1 2\n"}
