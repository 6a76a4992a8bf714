"""A switch in user space that holds every frame for a while: latency where the kernel has no netem.

python -m experiments.common.forward SECONDS INTERFACE...    until it is terminated

Frames that arrive on one interface leave it on the one behind which their destination was last
seen, or on all others; so much later, in their order. Rates are not made here: the kernel's tbf on
the interfaces makes them.
"""

import select
import socket
import time
from collections import deque
from dataclasses import dataclass

import tyro
from tyro.conf import Positional

LARGEST = 65_600
"""Bytes of a frame."""
EVERYTHING = 3
"""ETH_P_ALL of linux/if_ether.h."""
OUTGOING = 4
"""PACKET_OUTGOING of linux/if_packet.h: what this process has sent itself."""
BUFFER = 2**25
"""Bytes that a socket may keep."""
AT_ONCE = 64
"""Frames taken from a socket before the others have their turn."""


@dataclass(frozen=True)
class Command:
    """Pass frames on between interfaces, each so much later: a switch with latency."""

    seconds: Positional[float]
    """How long a frame is held."""
    interfaces: Positional[tuple[str, ...]]
    """Those of the switch."""


def main(argv: list[str] | None = None) -> None:
    """Forward until terminated."""
    options = tyro.cli(Command, args=argv, prog="python -m experiments.common.forward")
    seconds = options.seconds
    sockets = [_opened(name) for name in options.interfaces]
    poller = select.epoll()
    by_number = {s.fileno(): k for k, s in enumerate(sockets)}
    for number in by_number:
        poller.register(number, select.EPOLLIN)
    held: deque[tuple[float, int, bytes]] = deque()
    behind: dict[bytes, int] = {}
    print("ready", flush=True)
    while True:
        wait = max(0.0, held[0][0] - time.monotonic()) if held else -1
        for number, _ in poller.poll(wait):
            _take(sockets[by_number[number]], by_number[number], held, behind, seconds)
        now = time.monotonic()
        while held and held[0][0] <= now:
            _, source, frame = held.popleft()
            target = behind.get(frame[:6])
            for k in range(len(sockets)) if target is None else (target,):
                if k != source:
                    _send(sockets[k], frame)


def _opened(name: str) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERYTHING))
    made.setsockopt(socket.SOL_SOCKET, 33, BUFFER)  # SO_RCVBUFFORCE
    made.setsockopt(socket.SOL_SOCKET, 32, BUFFER)  # SO_SNDBUFFORCE
    made.bind((name, 0))
    made.setblocking(False)
    return made


def _take(
    source: socket.socket,
    number: int,
    held: deque[tuple[float, int, bytes]],
    behind: dict[bytes, int],
    seconds: float,
) -> None:
    for _ in range(AT_ONCE):
        try:
            frame, (*_, kind, _, _) = source.recvfrom(LARGEST)
        except BlockingIOError:
            return
        if kind != OUTGOING:
            behind[frame[6:12]] = number
            held.append((time.monotonic() + seconds, number, frame))


def _send(target: socket.socket, frame: bytes) -> None:
    while True:
        try:
            target.send(frame)
        except BlockingIOError:
            select.select([], [target], [], 0.01)
        except OSError:  # the queue is full: a frame is lost, as in a real switch
            return
        else:
            return


if __name__ == "__main__":
    main()
