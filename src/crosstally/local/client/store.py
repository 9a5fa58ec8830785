"""What a device keeps: what it spent, and every report it drew."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from .field_rules import StoreError

try:
    import fcntl
except ImportError:  # not on every system; the store then locks by a file that only one process can create
    fcntl = None  # type: ignore[assignment]


_LOCK_SECONDS = 30  # how long to wait for a lock that a file stands for, where there is no fcntl


class FileStore(MutableMapping[str, str]):
    """A JSON file of texts that is written whole, and flushed, before an entry counts as stored.

    Processes and threads that share the file take turns, by a lock on a file beside it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.realpath(path))  # so that a link and its target have one lock
        self._threads = threading.RLock()
        self._held = False
        self._texts = self._read()

    def __getitem__(self, key: str) -> str:
        return self._texts[key]

    def __iter__(self) -> Any:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __setitem__(self, key: str, value: str) -> None:
        self.update({key: value})

    def __delitem__(self, key: str) -> None:
        raise StoreError("what was stored is never removed: it would be drawn and spent again")

    def update(self, texts: Mapping[str, str]) -> None:  # type: ignore[override]
        """Store several texts at once: all of them are on the disk afterwards, or none."""
        with self.lock():
            merged = {**self._texts, **texts}
            if not all(isinstance(text, str) for text in merged.values()):
                raise StoreError("a store must hold texts only")
            self._write(json.dumps(merged))
            self._texts = merged

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep others away from the file, and know what they have stored in it before."""
        with self._threads:
            if self._held:
                yield
                return
            with _file_lock(self.path.with_name(self.path.name + ".lock")):
                texts = self._read()
                if self._texts.keys() - texts.keys():
                    raise StoreError(f"{self.path}: the store has lost entries; nothing is drawn without them")
                self._texts, self._held = texts, True
                try:
                    yield
                finally:
                    self._held = False

    def _read(self) -> dict[str, str]:
        try:
            texts = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError):
            texts = None
        if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
            raise StoreError(f"{self.path}: the store is damaged; nothing is drawn without it")
        return texts

    def _write(self, text: str) -> None:
        """Replace the file by a new one, under a name that nobody else can take meanwhile."""
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.name + ".", suffix=".new")
        beside = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        if hasattr(os, "O_DIRECTORY"):  # elsewhere a folder cannot be flushed
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


@contextlib.contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    """Hold the lock that a file stands for; the system frees it with the process, where there is fcntl."""
    if fcntl is not None:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)
        return
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            break
        except FileExistsError:
            if time.monotonic() > until:
                raise StoreError(f"the store is in use; if no other process uses it, remove {path}") from None
            time.sleep(0.01)
    try:
        yield
    finally:
        path.unlink()
