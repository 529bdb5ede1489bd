"""Files that no list of segments names yet: whose they are, and what they are to become.

While a write goes on its files are below the directory of the process that writes. Before they are
moved into place it claims the places: until it is known what has become of the transaction that is
to publish them nobody else takes them for abandoned, and whoever comes after this process knows
where to look. Directories outside the warehouse, which are to become files of others, are noted
before they are made. It must not know the catalog.
"""

import json
import os
import re
import shutil
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pgwire_gateway.spark.owners import Owner, Owners

_CLAIM: Final = ".claim"
_OUTSIDE: Final = ".outside"
_PASSING: Final = re.compile(r"\.(.*[.-])?[0-9a-f]{32}", re.DOTALL)
"""Names of directories outside that nobody reads, and that are ours."""


@dataclass(frozen=True, slots=True)
class StagedSegment:
    """A segment being written, in a directory readers ignore."""

    root: Path
    """Directory of everything the write needs."""
    ended: Callable[[Path], None]
    """Called when nobody writes there any more."""

    @property
    def incoming(self) -> Path:
        """Directory for row versions in the order they arrive."""
        return self.root / "incoming"

    @property
    def files(self) -> Path:
        """Directory that becomes the segment."""
        return self.root / "segment"

    def discard(self) -> None:
        """Remove whatever was written; harmless a second time."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.ended(self.root)


@dataclass(frozen=True, slots=True)
class Claim:
    """Places of segments that one transaction is to publish, all or none."""

    file: Path
    """Where that is written down."""
    relid: int
    """The table whose segments they are."""
    paths: tuple[str, ...]
    """The places, relative to the warehouse."""

    @property
    def database(self) -> int:
        """The OID of the table's database."""
        return int(self.paths[0].partition("/")[0])

    def write(self) -> None:
        """Write it down; a claim that is not whole is none."""
        text = json.dumps({"relid": self.relid, "paths": self.paths})
        self.file.write_text(text, encoding="utf-8")

    def drop(self) -> None:
        """Forget it, as it is known what has become of all places; harmless a second time."""
        self.file.unlink(missing_ok=True)

    @classmethod
    def read(cls, file: Path) -> "Claim | None":
        """Return what is written down; None where that is not whole, as nothing was moved then."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            told = json.loads(file.read_text(encoding="utf-8"))
            claim = cls(file, int(told["relid"]), tuple(map(str, told["paths"])))
            if claim.paths and claim.database >= 0:
                return claim
        return None


class Staging:
    """What the processes that write to one warehouse have not published, or not yet."""

    def __init__(self, root: Path) -> None:
        """Take the directory, which need not be there."""
        self._owners = Owners(root)
        self._lock = threading.Lock()
        self._written: set[Path] = set()
        """Directories, also outside, that somebody in this process is writing."""
        self._claims: dict[str, Claim] = {}
        """By place; those to several places are there for each that is not settled."""
        self._outside: dict[Path, Path] = {}
        """Directories outside that a task may have made anew, by the files that tell of them."""

    # writes that go on ----------------------------------------------------------------------------

    def begin(self) -> StagedSegment:
        """Return a new directory to write in."""
        root = self._owners.begin() / uuid.uuid4().hex
        with self._lock:
            self._written.add(root)
        staged = StagedSegment(root, self._ended)
        try:
            staged.incoming.mkdir(parents=True)
        except BaseException:
            staged.discard()
            raise
        return staged

    def _ended(self, directory: Path) -> None:
        with self._lock:
            self._written.discard(directory)

    @contextmanager
    def outside(self, parent: Path, prefix: str) -> Iterator[Path]:
        """Yield a place for a directory outside the warehouse, which goes with the context.

        Should this process end before, who comes after it removes the directory.

        Args:
            parent: Where it is to be.
            prefix: What its name begins with: a dot, as readers ignore such names.
        """
        directory = parent.absolute() / f"{prefix}{uuid.uuid4().hex}"
        note = self._owners.begin() / f"{uuid.uuid4().hex}{_OUTSIDE}"
        with self._lock:
            self._written.add(directory)
            self._outside[note] = directory
        try:
            note.write_bytes(os.fsencode(directory))
            yield directory
        except BaseException:
            # Tasks may not have heard of it yet: the note stays as long as the process lives.
            shutil.rmtree(directory, ignore_errors=True)
            self._ended(directory)
            raise
        shutil.rmtree(directory, ignore_errors=True)
        self._ended(directory)
        with self._lock:
            del self._outside[note]
        note.unlink(missing_ok=True)

    # segments that are in their places ------------------------------------------------------------

    def claim(self, relid: int, paths: Collection[str]) -> None:
        """Note where segments of a table will be, before they are moved there."""
        if not paths:
            return
        file = self._owners.begin() / f"{uuid.uuid4().hex}{_CLAIM}"
        claim = Claim(file, relid, tuple(paths))
        with self._lock:
            self._claims |= dict.fromkeys(claim.paths, claim)
        claim.write()

    def own_claims(self) -> list[Claim]:
        """Return the claims of this process that are not settled."""
        with self._lock:
            claims = {claim.file: claim for claim in self._claims.values()}.values()
            left = [tuple(path for path in one.paths if path in self._claims) for one in claims]
        return [replace(claim, paths=paths) for claim, paths in zip(claims, left, strict=True)]

    def inherited_claims(self) -> list[Claim]:
        """Return the claims of processes that do not live any more."""
        found: list[Claim] = []
        for owner in self._owners.others():
            with owner.inherited() as is_dead:
                if is_dead:
                    found += _claims(owner)
        return found

    def claimed(self) -> set[str]:
        """Return all places that somebody claims, whether he lives or not."""
        claims = [*self.own_claims(), *(c for o in self._owners.others() for c in _claims(o))]
        return {path for claim in claims for path in claim.paths}

    def settle(self, paths: Iterable[str]) -> None:
        """Drop own claims to places of which it is known what has become of them."""
        with self._lock:
            for path in paths:
                claim = self._claims.pop(path, None)
                if claim is not None and self._claims.keys().isdisjoint(claim.paths):
                    claim.drop()

    def settle_below(self, directory: str) -> None:
        """Drop own claims to places below a directory that is gone."""
        with self._lock:
            below = [path for path in self._claims if path.startswith(f"{directory}/")]
        self.settle(below)

    # what nobody writes any more ------------------------------------------------------------------

    @property
    def has_left(self) -> bool:
        """Whether there is something that :meth:`remove_left` would remove."""
        if self._own_left():
            return True
        for owner in self._owners.others():
            with owner.inherited() as is_dead:
                if is_dead and (_left(owner) or not _claims(owner)):
                    return True
        return False

    def remove_left(self) -> None:
        """Remove what is being written by nobody that lives, but not what may be published."""
        for directory in self._own_left():
            shutil.rmtree(directory, ignore_errors=True)
        for owner in self._owners.others():
            with owner.inherited() as is_dead:
                if is_dead:
                    _remove_left(owner)

    def _own_left(self) -> list[Path]:
        """Return directories that this process has ended to write, and that are there again."""
        own = self._owners.own
        present = [path for path in _entries(own) if path.is_dir()] if own is not None else []
        # In this order: whoever begins is noted before the directory is there.
        with self._lock:
            present += self._outside.values()
            found = [path for path in present if path not in self._written]
        # Outside, who may not look, or cannot, finds nothing to remove.
        return [path for path in found if os.path.exists(path)]  # noqa: PTH110 - raises nothing


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except FileNotFoundError:
        return []


def _claims(owner: Owner) -> list[Claim]:
    files = [path for path in _entries(owner.directory) if path.suffix == _CLAIM]
    return [claim for claim in map(Claim.read, files) if claim is not None]


def _left(owner: Owner) -> list[Path]:
    """Return what is there besides claims."""
    return [path for path in _entries(owner.directory) if path.suffix != _CLAIM]


def _remove_left(owner: Owner) -> None:
    """Remove all that a process was writing that does not live any more."""
    for path in _left(owner):
        if path.suffix == _OUTSIDE:
            with suppress(OSError):
                directory = Path(os.fsdecode(path.read_bytes()))
                if _remove_outside(directory):
                    path.unlink()
        else:
            shutil.rmtree(path, ignore_errors=True)
    if not _left(owner) and not _claims(owner):
        owner.remove()


def _remove_outside(directory: Path) -> bool:
    """Remove a directory outside, if its name is one that we give; tell whether it is gone."""
    if not directory.is_absolute() or not _PASSING.fullmatch(directory.name):
        return True
    shutil.rmtree(directory, ignore_errors=True)
    return not directory.exists()
