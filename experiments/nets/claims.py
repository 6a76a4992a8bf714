"""What the study is to decide, by criteria that were fixed before its judged runs were made.

Yes if the whole 95 % interval meets the criterion, no if none of it does, open otherwise. They are
not corrected for being many.
"""

from collections.abc import Callable, Sequence

from experiments.common.claims import Claim, Verdict, of_survival
from experiments.common.statistics import Criterion
from experiments.nets.groups import Group, Measured
from experiments.nets.plan import DPSGD, ONE, SSGD, STAR
from experiments.nets.size import IMAGES, Size, Task
from gossip.errors import UserError

MARGINS = {True: 2.0, False: 0.1}
"""Points of test error (images), nats of held-out loss (speech), within which the small batch's
counts as kept."""

Groups = Callable[[Size], Sequence[Group]]
"""The groups that a criterion is about, of a study of some size."""
ABOVE, BELOW = Criterion(low=0.0), Criterion(high=0.0)


def survives(first: Groups, second: Groups) -> Callable[[Measured], Verdict]:
    """More runs of the first groups survive than of the second, whose nets and rates are alike."""

    def measured(made: Measured) -> Verdict:
        return of_survival(made.counts(first(made.size)), made.counts(second(made.size)), ABOVE)

    return measured


def errs(first: Groups, second: Groups, criterion: Criterion) -> Callable[[Measured], Verdict]:
    """A difference of test errors or losses, of survivors.

    A verdict for the side that lost more runs of any net is open.
    """

    def measured(made: Measured) -> Verdict:
        try:
            found = made.gain(first(made.size), second(made.size))
        except UserError:
            return "open", "fewer than two runs of a method survived"
        if found is None:
            return None
        word = criterion.verdict(found.estimate)
        if (word == "yes" and not found.is_fair[0]) or (word == "no" and not found.is_fair[1]):
            word = "open"
        lost = f"; lost: {found.lost[0]} and {found.lost[1]} runs" if any(found.lost) else ""
        return word, f"{found.estimate:+.2f}{lost}"

    return measured


def of_task(task: Task) -> list[Claim[Measured]]:
    """What is asked of one net."""
    return _claims(lambda size: [task], task)


def together(size: Size) -> list[Claim[Measured]]:
    """The same of all nets on images: a mean over them."""
    images = [task for task in size.tasks if task.recipe == IMAGES]
    return _claims(lambda size: [task for task in size.tasks if task.recipe == IMAGES], images[0])


def _claims(tasks: Callable[[Size], Sequence[Task]], like: Task) -> list[Claim[Measured]]:
    """The claims about some nets of one recipe, such as the net `like`."""
    is_images = like.recipe == IMAGES
    margin, what = MARGINS[is_images], "test errors" if is_images else "held-out losses"
    unit = "points" if is_images else "nats"

    def groups(arm: str, *places: int) -> Groups:
        return lambda size: [(task, arm, k) for task in tasks(size) for k in places]

    everywhere = range(like.cells)
    return [
        Claim(
            "DPSGD converges where SSGD does not",
            "survival at all of its rates, DPSGD - SSGD above 0",
            survives(groups(DPSGD, *everywhere), groups(SSGD, *everywhere)),
        ),
        *(
            Claim(
                f"At {_place(k)} DPSGD is better",
                f"difference of {what} below 0",
                errs(groups(DPSGD, k), groups(SSGD, k), BELOW),
            )
            for k in everywhere
        ),
        Claim(
            "SSGD\\*, tuned, converges where SSGD does not",
            "survival at the edge, SSGD\\* - SSGD above 0",
            survives(groups(STAR, 0), groups(SSGD, 0)),
        ),
        Claim(
            "DPSGD converges where tuned SSGD\\* does not",
            "survival at the edge, DPSGD - SSGD\\* above 0",
            survives(groups(DPSGD, 0), groups(STAR, 0)),
        ),
        Claim(
            "At the edge DPSGD is better than tuned SSGD\\*",
            f"difference of {what} below 0",
            errs(groups(DPSGD, 0), groups(STAR, 0), BELOW),
        ),
        Claim(
            f"At {_place(1)} DPSGD is as good as the small batch",
            f"difference of {what} below {margin:g} {unit}",
            errs(groups(DPSGD, 1), groups(ONE, 0), Criterion(high=margin)),
        ),
    ]


def _place(k: int) -> str:
    return {0: "SSGD's edge", 1: "half of it"}.get(k, f"1/{2**k} of it")
