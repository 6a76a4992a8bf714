r"""Base-(k+1) graph: exact averaging in about log_{k+1} n steps for any n, at most k peers each.

A step is a list of edges (i, j, w): W_ij = W_ji = w, W_ii = 1 - sum_j W_ij. Names follow the
paper: H is the k-peer hyper-hypercube, V a list of learners.

Source: Takezawa et al., "Beyond exponential graph: communication-efficient topologies for
decentralized learning via finite-time convergence", 2023, algorithms 1 to 3.
"""

import itertools
import math

from topologies.matrices import identity, with_own_weights
from topologies.topology import Topology, TopologyError

Step = list[tuple[int, int, float]]


def base(n: int, *, k: int = 1) -> Topology:
    """Base-(k+1) graph: the product over a period is J for any n; at most k peers per step.

    The period is at most 2 log_{k+1}(n) + 2.

    Raises:
        TopologyError: k < 1.
    """
    if k < 1:
        raise TopologyError(f"base: k must be at least 1, got {k}")
    if n == 1:
        return Topology("base", 1, 1, lambda t: identity(1))
    sequence = shortest_sequence(list(range(n)), k)
    return Topology("base", n, len(sequence), lambda t: with_own_weights(n, sequence[t]))


def shortest_sequence(v: list[int], k: int) -> list[Step]:
    """Algorithm 3: the (k+1)-smooth part q of |V| aside first, or algorithm 2, if no longer."""
    simple = simple_base(v, k)
    limit = math.prod(f ** int_log(len(v), f) for f in range(2, k + 2))
    q = math.gcd(len(v), limit)
    size = len(v) // q
    groups = [v[g * size : (g + 1) * size] for g in range(q)]
    within = parallel([simple_base(group, k) for group in groups])
    across = parallel([hyper_hypercube(list(same), k) for same in zip(*groups, strict=True)])
    split = within + across
    return simple if len(simple) <= len(split) else split


def hyper_hypercube(v: list[int], k: int) -> list[Step]:
    """Algorithm 1, H(V): one step per factor f_l of |V| averages groups of f_l learners.

    Their places in V differ by multiples of f_1 ... f_{l-1} inside blocks of f_1 ... f_l.
    """
    factors = smooth_factors(len(v), k)
    assert factors is not None, "H(V) needs all prime factors of |V| to be <= k + 1"
    steps, stride = [], 1
    for f in factors:
        starts = (
            block + offset for block in range(0, len(v), stride * f) for offset in range(stride)
        )
        steps.append([e for s in starts for e in averaging(v[s : s + stride * f : stride])])
        stride *= f
    return steps


def smooth_factors(size: int, k: int) -> list[int] | None:
    """Factors of `size` between 2 and k + 1, largest taken first, in rising order; or None."""
    factors = []
    while size > 1:
        f = next((f for f in range(k + 1, 1, -1) if size % f == 0), None)
        if f is None:
            return None
        factors.append(f)
        size //= f
    return sorted(factors)


def averaging(group: list[int]) -> Step:
    """Every pair of the group, weight 1 / |group|."""
    return [(i, j, 1 / len(group)) for i, j in itertools.combinations(group, 2)]


def parallel(sequences: list[list[Step]]) -> list[Step]:
    """Sequences of the same length over disjoint learners, at the same time."""
    return [list(itertools.chain(*steps)) for steps in zip(*sequences, strict=True)]


def simple_base(v: list[int], k: int) -> list[Step]:
    """Algorithm 2: V in consecutive sets V_l of a_l blocks of (k+1)^{p_l}, the digits of |V|.

    A: each V_l averages itself by H(V_l). B: at step m all later sets take their share from V_m.
    C: each set, after its own step of B, averages inside its blocks.
    """
    if smooth_factors(len(v), k) is not None:
        return hyper_hypercube(v, k)
    blocks = digit_blocks(v, k + 1)
    sets = [list(itertools.chain(*b)) for b in blocks]
    own = [hyper_hypercube(s, k) for s in sets]
    inner = [parallel([hyper_hypercube(block, k) for block in b]) for b in blocks]
    length = len(own[0])
    sequence = [[e for h in own if h for e in h[m % len(h)]] for m in range(length)]
    for m in range(len(inner[0]) + 1):
        step = share(blocks[m:], k) if m + 1 < len(sets) else []
        for place, h in enumerate(inner):
            done = m + 1 - min(place + 2, len(sets))
            if done >= 0 and h:
                step += h[done % len(h)]
        sequence.append(step)
    return sequence


def share(blocks: list[list[list[int]]], k: int) -> Step:
    """Phase B: each learner of later sets links to a free one in every block of the first set.

    Weight w = |V_m| / sum_{s >= m} |V_s| / a_m. Learners of V_m left free hold the same value;
    averaging them in groups of up to k + 1 changes nothing for gossip alone and helps training.
    """
    serving, later = blocks[0], list(itertools.chain(*itertools.chain(*blocks[1:])))
    size = sum(map(len, serving))
    w = size / (size + len(later)) / len(serving)
    edges = [(i, j, w) for block in serving for i, j in zip(later, block, strict=False)]
    free = [i for block in serving for i in block[len(later) :]]
    for start in range(0, len(free), k + 1):
        edges += averaging(free[start : start + k + 1])
    return edges


def digit_blocks(v: list[int], base: int) -> list[list[list[int]]]:
    """Consecutive parts of V, one list of a_l blocks of base^{p_l} for each non-zero digit a_l."""
    blocks, start = [], 0
    for p in range(int_log(len(v), base), -1, -1):
        a = (len(v) - start) // base**p
        if a:
            ends = [start + b * base**p for b in range(a + 1)]
            blocks.append([v[i:j] for i, j in itertools.pairwise(ends)])
            start = ends[-1]
    return blocks


def int_log(size: int, base: int) -> int:
    """Largest p with base^p <= size."""
    p = 0
    while base ** (p + 1) <= size:
        p += 1
    return p
