"""A process and those it started, as Linux lists them."""

from pathlib import Path

PROC = Path("/proc")


def descendants(process_id: int) -> tuple[int, ...]:
    """Return the ids of all processes below a process."""
    children = _children()
    found, pending = [], [process_id]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return tuple(found)


def program_name(process_id: int) -> str:
    """Return the name of the program a process runs, empty when it has ended."""
    try:
        return (PROC / str(process_id) / "comm").read_text().strip()
    except OSError:
        return ""


def stat_fields(process_id: int) -> list[str]:
    """Return the fields of ``/proc/<id>/stat`` after the name, none when it has ended."""
    try:
        text = (PROC / str(process_id) / "stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _children() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for directory in PROC.glob("[0-9]*"):
        process_id = int(directory.name)
        fields = stat_fields(process_id)
        if fields:
            children.setdefault(int(fields[1]), []).append(process_id)
    return children
