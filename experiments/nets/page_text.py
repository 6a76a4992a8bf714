"""The words at the top of experiments/nets.md."""

from experiments.nets.claims import MARGINS
from experiments.nets.images import TEST, TRAIN
from experiments.nets.size import IMAGES, Size

HEAD = """\
<!-- Written by python -m experiments.publish: change experiments/nets/page_text.py, not this. -->
# Beyond the MLP: convolutional nets and an LSTM

Tables 1 to 4 and Figure 1 of the DPSGD paper: nets of several kinds, by one recipe, with batches so
large that SSGD fails. *Does DPSGD converge where SSGD does not? Is it better by the same recipe?
What does noise do, tuned, in its place?*

{learners} learners; DPSGD averages with a random neighbour, new at each step, as the paper does.
All methods have the same data, start, mini-batches and recipe, batch normalisation with the
statistics of a learner's own mini-batch; the mean model is judged, its statistics measured anew.

**Images.** CIFAR-10 at 16 x 16 pixels (means of 2 x 2), the first {train:,} images to train on,
{validation:,} of them held out, and the first {test:,} to test on. The recipe of the paper's
ImageNet runs, compressed: momentum 0.9, weight decay 1e-4, a linear warm-up over the first
twentieth, a tenth of the rate after 30, 60 and 90 % of the run. No augmentation. The nets:

{nets}

**Speech.** Telephone prompts in five languages (`--dataset phone-speech`): windows of 21 frames of
24 bands whose middle is hidden, to be labelled with the pair of acoustic units that is there, 839
labels with a long tail; every fifth of its training windows, {speech_validation:,} of them held
out (they may share the last third of their sound with a training window). A {lstm}.
The recipe of the paper's speech runs, compressed: plain SGD, a linear warm-up over the first half,
then ten times a step by 1/√2. As in its Table 2 batch and rate go together: nB of {batches}.

**The edge.** On seed {tuning}, which is not judged, SSGD's peak rate is doubled until it fails, or
halved until it does not, up to {further} times from a first guess. The least rate at which it
failed is *SSGD's edge* of that net. There, and at half of it (speech: at half and a quarter, of
batch and rate), SSGD and DPSGD go through {seeds} other seeds. This puts SSGD where it is about to
fail, on purpose: it asks whether DPSGD bears what SSGD does not, and not which is better when each
has its best rate ([the fight](fight.md) asks that). SSGD\\* adds noise N(0, σ_0² I) where gradients
are taken; σ_0 has the least validation loss, on that seed and at the edge, of {stds}
and the geometric means beside the best of them. The small batch is {small_batch}, of one learner,
with the rate of half the edge in proportion to it, and the same samples.

*Survived*: not diverged, and a test loss at the end below {failed:g} nats on images, where a
constant prediction has ln 10 = 2.30, and below {speech_failed:g} on speech, where the frequencies
of the labels alone give 6.15 and ln 839 = 6.73. Survival is a difference of shares with Newcombe's
95 % interval, over all rates of a comparison together; errors are those of the mean model at the
end, over runs that survived, unpaired, with Welch's interval, and a verdict for the side that lost
more runs in any net is open. Of all nets on images together: shares of all runs, and means of the
nets' differences. Nothing is corrected for being many. *As good as the small batch* is: at most
{margin:g} points, or {speech_margin:g} nats, worse.

**What {seeds} seeds can tell.**
{power}

**Cut for two cores**: the paper has ImageNet and whole nets, 100 epochs, batches of 256 to 8,192 on
16 learners, and 300 to 2,000 hours of Switchboard; here nets are narrow, images are small and few,
the prompts are less than two hours, and a run is as long as 1 to 4 epochs: so short a run fails
also where it would only be late. VGG11 without batch normalisation learnt little at this size (80 %
error at the lesser of two rates of the pilot), and AlexNet has its place. SSGD\\* has the reading
in which noise does not stay in the weights, and is judged at the edge alone, with up to {trials}
values of σ_0 instead of about 20. One seed finds the edge of a net and its noise. A run is 10 to 60
core seconds on a quiet core, the whole study about {hours} core hours ({runs} judged runs); what is
counted below is wall time on one thread, of a machine that had much other work. {pilot}

Commands: `python -m gossip.data fetch cifar10` and `fetch phone-speech`, once; `python -m
experiments.nets` makes the runs, in `runs/experiments/nets`, and goes on where it was stopped;
`--parts pair` (SSGD and DPSGD), `noise` (SSGD\\*) or `small` makes one part, `--nets alexnet`
the runs of one net. `python -m experiments.publish` makes this page, its table and its picture. One
row per run: [nets.csv](results/nets.csv).
"""
POWER = """\
At one rate, six of six against three of six or fewer is a yes; over both, twelve of twelve against
eight or fewer: a survival of .9 is told from one of .3 with probability .92 over both rates and .66
at one, from one of .5 with .60 and .39. A difference of errors of two standard deviations between
seeds is seen with probability .87, of one with .32; near the edge that deviation is large."""
HOURS = "3"
"""On quiet cores, by the CPU time of the pilot."""
PILOT = """\
Before the criteria were written, runs on the tuning seed were seen, and none of the judged
ones; widths, lengths and the bound of survival were chosen by them."""


def head(size: Size) -> str:
    """What was asked, how, and what was left out."""
    images = [task for task in size.tasks if task.recipe == IMAGES]
    first, speech = images[0], size.tasks[-1]
    speech = next((task for task in size.tasks if task.recipe != IMAGES), speech)
    lines = [
        f"- {task.label} ({', '.join(task.options)}): nB = {task.batch:,}, "
        f"{task.steps(task.batch)} steps"
        for task in images
    ]
    return HEAD.format(
        learners=size.learners,
        train=TRAIN,
        test=TEST,
        validation=first.validation,
        speech_validation=speech.validation,
        lstm=f"bidirectional LSTM ({', '.join(speech.options)}), {speech.samples:,} samples",
        batches=", ".join(f"{speech.cell(1.0, k)[0]:,}" for k in range(speech.cells)),
        small_batch=first.small_batch,
        nets="\n".join(lines),
        tuning=size.tuning_seed,
        further=size.further,
        seeds=len(size.seeds),
        stds=", ".join(f"{std:g}" for std in size.stds),
        failed=first.failed,
        speech_failed=speech.failed,
        margin=MARGINS[True],
        speech_margin=MARGINS[False],
        trials=len(size.stds) + 2,
        hours=HOURS,
        runs=sum(len(size.seeds) * (2 * task.cells + 2) for task in size.tasks),
        power=POWER,
        pilot=PILOT,
    )
