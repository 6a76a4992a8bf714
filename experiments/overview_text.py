"""The fixed sentences of experiments/README.md."""

from experiments.common.markdown import markdown

HEAD = """\
<!-- Written by python -m experiments.publish: change experiments/overview_text.py, not this. -->
# What reproduces, and what does not

Four papers, tried on two cores: a row for each claim. *Yes* or *no* if all of the effect's 95 %
interval says so, *open* if it does not, *-* if runs are still to come. Behind each row is a page
with criteria, seeds and tables. [All verdicts](claims.md) has also other graphs, tasks and designs,
how they were judged, and why two pages may seem to disagree.

`python -m experiments.publish` makes all pages from the tables in `experiments/results`; each page
names the command that makes its runs.
"""

WORDS = """\
*SSGD* averages gradients over all learners at every step; *DPSGD* averages weights with neighbours,
by a matrix W (11ᵀ/n: with all; a *random neighbour*: with one); *SSGD\\** is SSGD with noise where
gradients are taken. α is the learning rate, α_e the one that the mean model really has along the
gradient g; σ_w² is how far the learners are apart; Δ is the noise in the mean model's step: Δ_S of
the mini-batches, Δ⁽²⁾ of the learners' places. A run *survives* if its loss stays finite and it
ends below a bound (MNIST: 20 % of test error). n learners, a batch of nB.
"""

ALL = """\
<!-- Written by python -m experiments.publish: change experiments/overview_text.py, not this. -->
# All verdicts

[The page of five minutes](README.md) has the main ones, and what the symbols are. Studies:
[DPSGD](dpsgd.md), [the account of α_e](account.md), [its noise](noise.md), [flatness](flatness.md),
[Theorem 1](smoothness.md), [language](language.md),
[against SSGD over rates and batches](fight.md), [convolutional nets and an LSTM](nets.md),
[LENA](lena.md), [all rivals](rivals.md), [DATE](date.md), [growing batches](adadamp.md),
[time](time.md), [28 methods](methods.md), [costs](bench/README.md).

Lines of [account](account.md), [noise](noise.md), [flatness](flatness.md), [language](language.md),
[fight](fight.md), [nets](nets.md), [Theorem 1](smoothness.md), [DATE](date.md),
[growing batches](adadamp.md) and, at 20 epochs, [LENA](lena.md) are judged by criteria that were
committed before their runs; where one was asked or chosen after them, its page says so. The others
are read again from the committed tables: effect, interval and bound were chosen after the runs,
which were planned for all-or-nothing criteria on few seeds (two to five). Their own pages still
have these criteria, and so may say *yes* or *no* where it is *open* here: five of five against two
of five is no longer a verdict. Intervals are Student's or Welch's for means, Wilson's and
Newcombe's for shares, a bootstrap's for α_50, none corrected for being many. Shares that are
counted over several rates together have too wide an interval where the rates differ: *rates apart*
is the one that keeps them apart, and no verdict rests on it. Near the edge of stability a seed
controls nothing, so runs are compared unpaired there. Everything is small: MNIST, Fashion-MNIST,
CIFAR-10 or speech, MLPs and small nets, two cores.
"""

MAKE_OF_IT = """\
## What we make of it

- **It is not noise of that strength.** DPSGD's learners are apart by σ_w². At α = 1.25 it survives
  in 19 of 20 runs, SSGD in 3; SSGD with as strong a noise at every step in 5 if it is isotropic, in
  none if it has the learners' covariance; at α = 1.5 DPSGD in 14, on Fashion-MNIST in 5, all these
  in none ([noise](noise.md)).
- **It is a direction.** With W = 11ᵀ/n a learner's place is a step down the gradient of a
  mini-batch. Turn the sign of these deviations, or draw it at every step, with covariance and
  strength as they were, and none of 20 runs survives. (Whose mini-batch it was does not
  matter: learners can be exchanged.)
- **It is not the lower rate.** SSGD that takes, step by step, the α_e recorded in a run of DPSGD
  survives in none of 20 runs at α = 1.5, nor at 1.25.
- **It is not a smoother loss, but a flatter place.** Averaged over the learners' own spread the
  loss is as sharp as before ([Theorem 1](smoothness.md)); soon after the start DPSGD's mean model
  lies where it is half as sharp as where SSGD's does. At α = 0.25, where both train, DPSGD is
  [flatter at the same training loss](flatness.md), and errs less there.
- **Larger rates are not better models.** After its warm-up a transformer survives
  [higher peaks](language.md) with DPSGD, and at its own best peak it is 0.12 nats a byte worse.
  [Each at its best rate](fight.md), an MLP without momentum at nB = 8,000 errs 1.1 to 1.5 points
  less with DPSGD, but for one peer (open); with momentum 0.9 it errs 0.4 to 0.6 points *more* on
  all four graphs. Over all six cells of batch and momentum neither is better for sure.
- **What holds for an MLP on every graph does not for small nets.** On MNIST at a constant rate half
  of the runs survive α = 1.04 with SSGD, 1.35 with a random neighbour, and 1.44 to 1.58 with one
  peer, a ring or all ([fight](fight.md)). [On speech and on CIFAR-10](nets.md), with a random
  neighbour and recipes with momentum and rates that rise and fall, DPSGD is behind SSGD at the
  rates where SSGD is about to fail: on speech it diverges, on images it is behind after 160 steps
  (that it diverges there more often is open).
- **LENA keeps its promise** over 20 epochs, [tuned in every cell](lena.md): as accurate as one
  worker at 64 learners, better than AdaScale and LSW. Over 4 epochs at one worker's rate it does
  not.
- **A batch that grows does what a rate that falls does** ([growing batches](adadamp.md)), in two
  fifths of the updates.
"""

DISAGREE = """\
## Where two pages seem to disagree

- **LENA against AdaScale**: worse on [LENA's page](lena.md), a tie on [the rivals'](rivals.md). The
  warm-up is the same. On the first, both have the base rate that is best for one worker; on the
  second each is tuned at each n, and LENA's best rate is four times higher. So its state-aware
  warm-up asks for another base rate; that it is worse is said of that one rate only. Tuned in every
  cell over 20 epochs, the first table of [LENA's page](lena.md), decides it: LENA is the more
  accurate one, by 0.6 points on the mean of n = 16 and 64; that is 1.2 at 64 and a tie at 16.
- **LENA's scaling, "best under every warm-up: yes"** on its page compares means that differ by
  0.1 to 0.5 points; the interval above says how much that is worth. Means over n are carried by
  n = 128 where LENA or its warm-up fails there: of one n they are from 0.3 to 25 points.
- **DPSGD bears larger rates**: yes here, no on [the rivals' page](rivals.md), whose trials even
  point the other way (rate 0.32, n = 16: SSGD 15.2 %, one-peer 24.8 %, ring lost). There are
  momentum 0.9, rates that fall, 16 and 64 learners on sparse graphs and one seed; here plain SGD at
  a constant rate and 5 learners. At [the fight's edge](fight.md), twenty fresh seeds at seven
  constant rates, it is yes for W = 11ᵀ/n and for each sparse graph, so it is not the graph alone.
  Momentum 0.9 beside none is in its tuned half, where each method has its best rate and the rates
  that are survived are not judged;
  rates that fall are in its tables, with momentum alone. More than five learners are not in it.
- **SSGD\\* against the study of noise**: on [DPSGD's page](dpsgd.md) tuned noise is not told apart
  from DPSGD, but its σ_0 of 0.04 (α = 1) and 0.15 (α = 1.5) is 13 and some 40 times the deviation
  per coordinate that DPSGD has, and 0.018 where it persists 5 times;
  [the study of noise](noise.md) gives SSGD noise of *DPSGD's own* strength. A tie of the first and
  a failure of the second do not contradict each other.
- **How strong the noise is**: D of an arm is made of that arm's own gradients, and these are others
  where other noise leads elsewhere: isotropic noise came to be 18 to 43 times weaker than DPSGD's,
  in the median, and flipped or Gaussian noise exploded. The arms *DPSGD's σ_w²* have the strength
  that a run of DPSGD had at each step; what is said of noise above rests on these.
- **Nets, the other way round**: at rates where SSGD is about to fail an MLP survives with DPSGD,
  also with a random neighbour ([fight](fight.md)); [an LSTM on speech, VGG11, ResNet-18 and
  EfficientNet-B0](nets.md) with 8 learners and a random neighbour do not. On speech SSGD survives
  in 10 of 18 runs at its edge, its half and its quarter, EfficientNet-B0 in 6 of 12, with DPSGD
  none of either; VGG11 and ResNet-18 each in 3 of 12 with SSGD and in none with DPSGD. MobileNetV2
  came below the bound with neither, at no rate that was tried: it has no edge, and without it the
  images' 7/60 against 17/60 is 7/48 against 17/48. On images *survived* is a loss below 2 nats
  after 120 to 160 steps, and how many are below depends on the bound: at 2, 2.1 or 2.15 nats the
  verdict is no, at 1.9, 1.95, 2.05, 2.2 or 2.25 open, and of runs that did not diverge it is 39
  against 47 of 60, open. So DPSGD is behind there; that it diverges more often is not shown.
  AlexNet leans towards DPSGD (7 and 5 of 12, open). Rates that warm up and fall, momentum 0.9 on
  images, 8 learners in place of 5 and the models set these apart from the MLP; which of them it is
  no study here decides. It is what the rivals' trials pointed to. An MLP with such rates and
  momentum, as in the paper's tables, [trains neither way](fight.md) with batch and rate 32 times as
  large, with the complete graph or a random neighbour, and both ways at an eighth of that rate.
- **Larger rates, or a better model**: after two of three warm-ups a transformer
  [bears higher peaks](language.md) with DPSGD, and after all three its test loss at its own best
  peak is 0.12 to 0.13 nats *above* SSGD's: where only DPSGD trains it is not at its best. The MLP
  of [the fight](fight.md) says it with the batch and the momentum: at its best rate DPSGD is better
  without momentum in five of twelve comparisons of a graph and a batch and worse in none, with
  momentum 0.9 better in none and worse in six (all graphs at nB = 8,000; W = 11ᵀ/n and the random
  neighbour at 500, by 0.15 points and at a half and a fourth of SSGD's rate, which one seed chose
  on a grid of factors of two). Momentum is worth more than either: at nB = 8,000 SSGD with it ends
  at 3.0 %, the best without it, a random neighbour, at 4.4 %.
- **A smoother loss, or a flatter place**: the paper's Theorem 1 bounds the smoothness of the loss
  averaged over the learners' deviations. [Measured](smoothness.md), at their own σ_w that average
  is as sharp as the loss itself, over the learners' own places it is sharper, and the bound is
  hundreds of times too large to say anything. What differs is where the algorithms are: soon after
  the start DPSGD's mean model lies where the Hessian's largest eigenvalue is about half of SSGD's,
  which is beyond 2/α. So DPSGD does not smooth the loss that SSGD sees; it is led to where less
  smoothing is needed. At α = 0.25 it [is flatter](flatness.md) also at the same training loss, at
  α = 1 that is open. To be beyond 2/α does not kill by itself: at α = 0.5 SSGD is there, too, and
  all of its runs survive.
- **α_e late**: on [DPSGD's page](dpsgd.md) the criterion (within 0.15 of α) fails because α_e is
  *above* α, measured every 50 steps. On [the account's](account.md) fresh seeds, at all phases of
  an epoch, the interval has α inside: whether α_e is above α late is open.
"""

REFEREE = "## What a referee asked for\n\n" + markdown(
    ["", "asked", "state"],
    [
        (
            "H1",
            "survival rates with intervals instead of all-or-nothing on five seeds",
            "done: [fight](fight.md), 7 rates, 5 methods, 20 fresh seeds, criteria before runs; "
            "SSGD\\* is not among them",
        ),
        (
            "H2",
            "α_e at exact g and all phases of an epoch, given t and ‖g‖",
            "done, and open on five seeds whether α_e is above α late: [account](account.md), "
            "criteria before runs",
        ),
        (
            "H3",
            "σ_0 = 5e-6 is no noise; unpaired comparison; noise of DPSGD's own size",
            "lower bound on [DPSGD's page](dpsgd.md), unpaired above; own size in "
            "[noise](noise.md); more seeds not run",
        ),
        (
            "H4",
            "interventions on the noise",
            "[noise](noise.md), criteria before runs: two rates on MNIST, one on Fashion-MNIST; "
            "a second referee saw that the noise was not as strong as DPSGD's, hence the arms of a "
            "recorded strength",
        ),
        (
            "H5",
            "rates from far below the edge, batches, momentum",
            "[fight](fight.md): each method at its best rate, grids that grow while the best rate "
            "is at an end, ten seeds that tuned nothing; batch and rate doubled as in the paper's "
            "tables; criteria before runs; complete",
        ),
        (
            "H6",
            "LENA: differences with intervals; rate tuned per cell; 20 epochs",
            "[LENA](lena.md): every cell tuned on a seed that is not judged, five seeds, 20 "
            "epochs; criteria before runs; how many of them are made is said there",
        ),
        (
            "H7",
            "rivals: seeds that tuned nothing, longer grids",
            "re-read above, seed 0 tuned and is still judged; not run again",
        ),
        (
            "H8",
            "DATE: the paper's lengths, grids without edges, seeds",
            "[DATE](date.md): 30 and 25 epochs, grids that grow while the best rate is at an end, "
            "tuned on a seed that is not judged; criteria before runs; the short runs are gone; "
            "how many of the long ones are made is said there",
        ),
        (
            "H9",
            "topologies: σ_w² from W's spectrum",
            "done: [account](account.md), criteria before runs; survival by topology in "
            "[fight](fight.md)",
        ),
        ("H10", "stragglers with spread", "two series of one run a cell, on [time](time.md)"),
    ],
)

UNFINISHED = """\
## Not finished

- CIFAR-10 but for [growing batches](adadamp.md) and [nets](nets.md), at half its resolution
- LENA tuned over 20 epochs at n = 8, 32 and 128; five of the nine cells of its Table 2
- DATE: translation, and batches between B_0 and the largest
- a second corpus of language; interventions on noise at a second rate of Fashion-MNIST
- more seeds for SSGD\\*, and its survival over rates; the rivals' trials on seeds of their own;
  stragglers with spread
"""

WALL = """\
Wall time of runs on one thread, on a machine that had much other work: up to five times their CPU
time. Not counted: the trials of criteria, benchmarks, [time](time.md) and its networks.
"""

COSTS = {
    "fig2.csv": "[DPSGD](dpsgd.md), Figure 2",
    "topologies.csv": "[DPSGD](dpsgd.md), topologies",
    "account.csv": "[account](account.md)",
    "noise.csv": "[noise](noise.md)",
    "flatness.csv": "[flatness](flatness.md), each measured at several losses",
    "language.csv": "[language](language.md)",
    "fight.csv": "[fight](fight.md)",
    "nets.csv": "[nets](nets.md)",
    "smoothness.csv": "[Theorem 1](smoothness.md), each measured after several steps",
    "lena.csv": "[LENA](lena.md), 4 epochs",
    "lena_tuned.csv": "[LENA](lena.md), 20 epochs, tuned",
    "rivals.csv": "[rivals](rivals.md), some of them LENA's",
    "date.csv": "[DATE](date.md)",
    "adadamp.csv": "[growing batches](adadamp.md)",
    "adadamp_cifar10.csv": "[growing batches](adadamp.md), CIFAR-10",
    "methods.csv": "[28 methods](methods.md)",
}
"""Tables with a row per run."""
