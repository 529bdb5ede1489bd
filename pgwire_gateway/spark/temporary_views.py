"""Names that queries have for frames while they are analysed."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pgwire_gateway.spark.api import Frame, Session


@contextmanager
def viewed(session: Session, frames: Mapping[str, Frame]) -> Iterator[dict[str, str]]:
    """Give frames names queries can use while the context lasts; yields them by given name."""
    names = {name: f"frame_{uuid.uuid4().hex}" for name in frames}
    for name, frame in frames.items():
        frame.register(names[name])
    try:
        yield {name: f"global_temp.{view}" for name, view in names.items()}
    finally:
        for view in names.values():
            session.drop(view)
