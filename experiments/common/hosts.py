"""Hosts that are network namespaces of this machine, behind one switch: needs root.

Each has an interface whose rate the kernel's token bucket (tc tbf) bounds on both ends, so that
what it sends and what it receives are bounded alike and at once. Without delay the switch is a
bridge of the kernel. A delay would be tc netem's; where the kernel has none, frames are held in
user space (`experiments.common.forward`), which costs a core that the hosts then lack.
"""

import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from shutil import which

SWITCH = "gossip-switch"
NETWORK = "10.77.0"
INTERFACE = "eth0"
"""Of each host."""
MTU = 9000
"""Jumbo frames: fewer of them for the switch in user space."""
BURST = 20_000
"""Bytes that leave at once after a pause: two frames, or what the rate gives in BURST_SECONDS."""
BURST_SECONDS = 1e-3
"""A token bucket is looked at by a timer, and with less it would not reach 1 Gbit/s."""
QUEUE = 100_000
"""Bytes that may wait for their turn, or what is under way in a round trip if that is more. Where
megabytes wait, acknowledgements come after TCP's patience, and rows are sent twice."""
BUFFERS = "4096\t4194304\t33554432"
SYSCTL = (
    "net.ipv4.tcp_slow_start_after_idle=0",
    "net.ipv4.tcp_no_metrics_save=1",
    f"net.ipv4.tcp_rmem={BUFFERS}",
    f"net.ipv4.tcp_wmem={BUFFERS}",
)
"""A connection that computed for a while goes on as fast as it was, and has room for more than is
under way in a round trip, as on tuned hosts."""
CONGESTION = "cubic"
"""Linux's default, whatever this machine's is: bbr looks for the bandwidth by sending less."""
WINDOW = 100
"""Segments that a connection sends at first before it waits: a row, which otherwise takes some
round trips more until the connection has come to its speed, and with every loss again."""
FIRST = ("chrt", "--rr", "1")
"""Learners and the switch in user space go before what else the machine does."""


def why_not() -> str | None:
    """Why this machine cannot have such hosts; None: it can."""
    if os.geteuid() != 0:
        return "it needs root"
    if missing := [
        name for name in ("ip", "tc", "sysctl", "ethtool", "chrt") if which(name) is None
    ]:
        return f"{missing[0]} is not installed"
    probe = "gossip-probe"
    try:
        _sh(f"ip netns add {probe}")
        _sh(f"ip -n {probe} link add probe0 type veth peer name probe1")
        _sh(f"tc -n {probe} qdisc add dev probe0 root tbf rate 10mbit burst {BURST} limit {QUEUE}")
    except subprocess.CalledProcessError as error:
        return f"{' '.join(error.cmd)}: {error.stderr.strip()}"
    finally:
        subprocess.run(["ip", "netns", "del", probe], capture_output=True, check=False)
    return None


def has_netem() -> bool:
    """Whether the kernel can delay by itself."""
    probe = "gossip-probe"
    _sh(f"ip netns add {probe}")
    try:
        _sh(f"ip -n {probe} link add probe0 type veth peer name probe1")
        _sh(f"tc -n {probe} qdisc add dev probe0 root netem delay 1ms")
    except subprocess.CalledProcessError:
        return False
    finally:
        _sh(f"ip netns del {probe}")
    return True


@dataclass
class Hosts:
    """Running hosts 0, 1, ...; `shape` sets their network."""

    n: int
    first: Sequence[str] = FIRST
    """What puts learners and switch before others; nothing: they are as all else."""
    _switch: "subprocess.Popen[str] | None" = field(default=None)

    def shape(self, bits: float, delay: float) -> None:
        """Every interface gets so many bits per second, every way so many seconds one way."""
        self._no_delay()
        burst = max(BURST, bits / 8 * BURST_SECONDS)
        queue = max(QUEUE, bits / 8 * 2 * delay) + burst
        for j in range(self.n):
            for where, device in ((SWITCH, f"port{j}"), (name(j), INTERFACE)):
                _sh(
                    f"tc -n {where} qdisc replace dev {device} root tbf rate {bits:.0f}bit "
                    f"burst {burst:.0f} limit {queue:.0f}"
                )
        if delay:
            self._delay(delay)

    def command(self, j: int, words: Sequence[str]) -> list[str]:
        """A command line that runs on host j."""
        return [*self._in(name(j)), *words]

    def _in(self, where: str) -> list[str]:
        """What a command line begins with that runs in a namespace."""
        return [*self.first, "ip", "netns", "exec", where]

    def _delay(self, seconds: float) -> None:
        ports = [f"port{j}" for j in range(self.n)]
        for port in ports:
            _sh(f"ip -n {SWITCH} link set {port} nomaster")
        words = [sys.executable, "-m", "experiments.common.forward", str(seconds), *ports]
        self._switch = subprocess.Popen(
            [*self._in(SWITCH), *words], stdout=subprocess.PIPE, text=True
        )
        assert self._switch.stdout is not None
        self._switch.stdout.readline()

    def _no_delay(self) -> None:
        if self._switch is not None:
            self._switch.terminate()
            self._switch.wait()
            self._switch = None
        for j in range(self.n):
            _sh(f"ip -n {SWITCH} link set port{j} master bridge")


def name(j: int) -> str:
    """The namespace of host j."""
    return f"gossip-host{j}"


def address(j: int) -> str:
    """Its address."""
    return f"{NETWORK}.{j + 1}"


@contextmanager
def hosts(n: int, first: Sequence[str] = FIRST) -> Generator[Hosts]:
    """N hosts, gone again at the end; `first` as of `Hosts`."""
    made = Hosts(n, first)
    _down(n)
    try:
        _sh(f"ip netns add {SWITCH}")
        _sh(f"ip -n {SWITCH} link add bridge type bridge")
        _sh(f"ip -n {SWITCH} link set bridge mtu {MTU} up")
        for j in range(n):
            _add(j)
        yield made
    finally:
        if made._switch is not None:
            made._switch.terminate()
            made._switch.wait()
        _down(n)


def _add(j: int) -> None:
    host = name(j)
    _sh(f"ip netns add {host}")
    _sh(f"ip -n {host} link set lo up")
    _sh(f"ip link add port{j} netns {SWITCH} type veth peer name eth0 netns {host}")
    for where, device in ((SWITCH, f"port{j}"), (host, "eth0")):
        # Whole segments alone: what passes a token bucket is what passes a wire.
        _sh(f"ip -n {where} link set {device} mtu {MTU} gso_max_segs 1 gro_max_size {MTU} up")
    # Without this no checksum is made until a frame leaves the kernel, which it does not here.
    _sh(f"ip netns exec {host} ethtool -K eth0 tx off tso off gso off gro off")
    _sh(f"ip -n {SWITCH} link set port{j} master bridge")
    _sh(f"ip -n {host} addr add {address(j)}/24 dev eth0")
    # A receiver that waits 40 ms before it acknowledges holds up the end of every row.
    route = f"{NETWORK}.0/24 dev eth0 src {address(j)} quickack 1 congctl {CONGESTION}"
    _sh(f"ip -n {host} route replace {route} initcwnd {WINDOW} initrwnd {WINDOW}")
    for setting in SYSCTL:
        _run("ip", "netns", "exec", host, "sysctl", "-qw", setting)


def _down(n: int) -> None:
    there = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    for each in [*map(name, range(n)), SWITCH]:
        if each in there.split():
            _sh(f"ip netns del {each}")


def _sh(words: str) -> None:
    _run(*words.split())


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)
