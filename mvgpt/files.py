"""Files that are written whole or not at all, and read with a clear error."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mvgpt.errors import InputError


@contextmanager
def replacing(*paths: Path) -> Iterator[list[Path]]:
    """Yield a path beside each to write to; when the block ends well they take their places.

    An exception or Ctrl-C in the block leaves what was there before; what a kill leaves beside,
    the next one replaces.
    """
    beside = [path.with_name(f".new.{path.name}") for path in paths]
    try:
        yield beside
        for new, path in zip(beside, paths, strict=True):
            new.replace(path)
    finally:
        for new in beside:
            new.unlink(missing_ok=True)


def prepare_folder(folder: Path) -> None:
    """Create the folder if need be; one that cannot be written to is an InputError."""
    probe = folder / f".{os.getpid()}.probe"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"cannot write to the folder {folder}: {error.strerror}") from None


def read_json(path: Path) -> dict:
    """The object in a JSON file; an InputError says what is wrong with the file."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise InputError(f"{path} holds no JSON object")
    return values


def write_json(path: Path, values: dict) -> None:
    """Write strict JSON (finite numbers only), indented, replacing the file as a whole."""
    text = json.dumps(values, indent=2, allow_nan=False, ensure_ascii=False)
    with replacing(path) as (beside,):
        beside.write_text(text + "\n", encoding="utf-8")
