"""What experiments/adadamp.md says in words, beside its tables."""

HEAD = """\
<!-- Written by python -m experiments.publish: change experiments/adadamp/page.py, not this. -->
# Batches that grow: the AdaDamp paper's study

Sievert and Shah, "Training machine learning models faster with Dask", SciPy 2021, and "Improving
the convergence of SGD through adaptive batch sizes", arXiv 1910.08222. Its schedules are here as
they are; its training runs are reduced to what two cores can carry.

**What the reduction changes.** The paper trains 2.75 million weights on CIFAR-10 for 200 epochs
from B_0 = 128. Here an MLP with {widths} hidden units learns Fashion-MNIST, N = {samples:,} and
{validation:,} held out, for E = {epochs:g} epochs from B_0 = {batch}, inputs standardised, float32.
As in the paper: Nesterov momentum 0.9, weight decay 5e-4, steps of a factor 5 every 0.3 E (here
{delay:g} epochs), largest batches 1, 5, 25 and 125 B_0, and 40 B_0 from 2 B_0 at twice the rate. So
the schedules have the paper's shape, and {fraction:.1%} of its updates. An error after {epochs:g}
epochs says less about the end of training, and an MLP has no BatchNorm.

{images}

**Tuning.** Rates {rates}, on seed {tuning}, which is not judged, by validation error; the grid
grows by a factor of two at an end as long as the best is there, at most {further} times; that rate
goes through {seeds} seeds. The five schedules all have the rate that is best for 128 (GeoDampLR).
In the comparison of dampers every method has its own: LENA's first grid is half as high (its base
batch is {quarter}, and its own factor up to {learners}), gradient descent's 8 times. A best rate
that is still at an end of its grid is bold: the method might do better outside. (Before grids grew,
eleven of the fourteen best rates were at an end; the criteria are the old ones.)

**Dampers.** All begin with {batch} samples in total and go up to {cap} B_0. PadaDamp's rate,
{linear}, is that with which it makes as many updates as GeoDamp; CntsDampLR's, {falling}, ends
with the same noise level. AdaDamp and AdaDampNN measure {share:.0%} of the training set every 20
updates, from update 100 on. {learners} learners share the batch where a method needs several:
noise scale, LENA, and DPSGD (one-peer graph). Samples and their order are the same for all methods
of a seed.

Commands: `python -m experiments.adadamp` makes tables and runs, in `runs/experiments/adadamp`, and
goes on where it was stopped; `python -m experiments.publish` makes this page and its pictures. The
runs were made on busy cores at the lowest priority, so their minutes say little. One row per run:
[adadamp.csv](results/adadamp.csv); the schedules' evaluations:
[adadamp_curves.csv](results/adadamp_curves.csv).

Errors are those of the final model on the 10,000 test images. A difference is the mean over seeds
of differences between runs of one seed, in points of test error, with Student's 95 % interval.
"""
DONE = """\
The five schedules, Figs 3 and 4, are [on CIFAR-10 as well](#cifar-10), with convolutions
([runs](results/adadamp_cifar10.csv), [evaluations](results/adadamp_cifar10_curves.csv)); all else
is said of Fashion-MNIST and an MLP alone."""
TO_DO = """\
**CIFAR-10 is not done.** Plan and criteria of the five schedules [stand](#cifar-10), no run is made
yet; so all of Figs 3 and 4 is said of Fashion-MNIST and an MLP alone."""
IMAGES = """\
## CIFAR-10

The five schedules once more, on the paper's data set: `cnn`, two strided convolutions and one
hidden layer, 51,466 weights, learns N = {samples:,} images, {validation:,} held out, for
E = {epochs:g} epochs from B_0 = {batch}; a step of the schedules comes every {delay:g} epochs, and
there are {fraction:.1%} of the paper's updates. **What that changes**: the paper's net has 53 times
as many weights, and {longer:.0f} times as many epochs; images are never flipped or shifted here. So
the net stops far from all that it could learn: what is compared is how fast it descends under
noise, hardly how well it generalises at the end. The largest batch is used
for {last} updates only. A run whose batch grows is evaluated every {every} updates, and errors
between are interpolated: in the segment of 25 B_0 that is {coarse:.1f} epochs. 128 is tuned over
{rates}, and more while the best is at an end, on seed {tuning}, which is not judged; the other
schedules have its best rate.
"""
TIMES = """\
## Seconds, by the simulator

The recorded schedules, replayed with a worker for every B_0 samples and the seconds that the
paper's simulation had for 128: [the study of time](time.md) shows that this model gives its Table
2 and that 4 tasks ran at a time there; `a slot each` is what the same networks would take with as
many slots as workers. First seconds of whole runs, then until the test error is at most 1 point
above the last one of 128, means over seeds:
"""
