"""Archives as upstream packs them, out of texts."""

import io
import tarfile
from pathlib import Path


def write_tar(path: Path, files: dict[str, str], folder: str = "") -> Path:
    """Compressed as the name says."""
    with tarfile.open(path, f"w:{path.suffix.removeprefix('.').replace('tgz', 'gz')}") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(folder + name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return path
