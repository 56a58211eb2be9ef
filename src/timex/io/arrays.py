"""Named arrays to and from .npz files. Nothing is unpickled, and a damaged file gives one `ValueError` that names it."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import ArrayLike, NDArray

from timex.io.atomic import atomic_path
from timex.io.limits import Limit


def write_arrays(path: str | Path, arrays: Mapping[str, ArrayLike]) -> Path:
    """Write a compressed .npz file; a failing write leaves what was there before."""
    # An open file, since savez would add .npz to the temporary name.
    with atomic_path(path) as beside, open(beside, "wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    return Path(path)


def read_arrays(
    path: str | Path, names: Collection[str] | None = None, max_bytes: int | None = None
) -> dict[str, NDArray[Any]]:
    """The arrays of a .npz file by name.

    Args:
        path: The file.
        names: The arrays to read if the file has them; all of them when not given. A name that ends in a dot stands for all
            that start with it.
        max_bytes: Refuse files that need more memory. By default 200 times the file's size, and at least 256 MiB.
    """
    with archive_members(path) as (archive, members):
        wanted = {name: info for name, info in members.items() if names is None or _among(name, names)}
        limit = Limit.of(Path(path), max_bytes)
        limit.check(sum(info.file_size for info in wanted.values()), f"the arrays {', '.join(wanted)}")
        return {name: _read_array(archive, info) for name, info in wanted.items()}


@contextmanager
def archive_members(path: str | Path) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    """An open .npz file and its members by the names of the arrays; whatever is damaged becomes one `ValueError`."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"Expected a .npz file, found none at {path}.")
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path}: No .npz archive. Write one with np.savez.")
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive, {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    except MemoryError:
        raise ValueError(f"{path}: The arrays need more memory than there is. Read them on a larger machine.") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    except Exception as error:  # a damaged archive raises almost anything: zlib, struct, tokenize, RuntimeError, ...
        raise ValueError(f"{path}: Could not be read as .npz: {error}") from error


def _among(name: str, names: Collection[str]) -> bool:
    return name in names or any(name.startswith(start) for start in names if start.endswith("."))


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """One array, read only if its header fits the member's size: the header alone decides how much is allocated."""
    with archive.open(info) as file:
        header_of(file, info)
    with archive.open(info) as file:
        return npy.read_array(file, allow_pickle=False)


def header_of(file: IO[bytes], info: zipfile.ZipInfo) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    """Shape, type, and whether columns come first, of an array whose header fits the member's size. The values come next."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, by_columns, dtype = read(file)
    if dtype.hasobject:
        raise ValueError(
            f"{info.filename} holds Python objects. Loading them can run any code, so only plain arrays of numbers, "
            "bools or strings are read."
        )
    held, described = info.file_size - file.tell(), math.prod(shape) * dtype.itemsize
    if held != described:
        raise ValueError(f"{info.filename} holds {held} bytes, and its header describes {described}.")
    return shape, dtype, by_columns
