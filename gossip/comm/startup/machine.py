"""Identity of a host: processes with the same one see the same memory and pids."""

import socket
from contextlib import suppress
from pathlib import Path


def machine() -> tuple[str, ...]:
    """What processes have in common that see the same files and the same pids.

    Containers may share the name of their host and see neither.
    """
    marks = [socket.gethostname()]
    with suppress(OSError):  # there only on Linux
        marks.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        marks += [str(Path(f"/proc/self/ns/{space}").readlink()) for space in ("mnt", "pid")]
    return tuple(marks)
