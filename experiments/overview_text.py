"""The fixed sentences of experiments/README.md."""

from experiments.common.markdown import markdown

HEAD = """\
<!-- Written by python -m experiments.publish: change experiments/overview.py, not this file. -->
# What reproduces, and what does not

Each statement of the four papers that was tried here, on one page: *yes* or *no* if all of the 95 %
interval says so, *open* if it does not. Behind each line is a page with criteria, seeds and tables:
[DPSGD](dpsgd.md), [the account of α_e](account.md), [its noise](noise.md), [flatness](flatness.md),
[Theorem 1](smoothness.md), [language](language.md),
[against SSGD over rates and batches](fight.md), [convolutional nets and an LSTM](nets.md),
[LENA](lena.md), [all rivals](rivals.md), [DATE](date.md), [growing batches](adadamp.md),
[time](time.md), [28 methods](methods.md), [costs](bench/README.md).

Lines of [account](account.md), [noise](noise.md), [flatness](flatness.md), [language](language.md),
[fight](fight.md), [nets](nets.md), [Theorem 1](smoothness.md), [DATE](date.md),
[growing batches](adadamp.md) and, at 20 epochs, [LENA](lena.md) are judged by criteria that were
committed before their runs. The others are read again from the committed tables: effect, interval
and bound were chosen after the runs, which were planned for all-or-nothing criteria on few seeds
(two to five; LENA's and the rivals' pages have them). Intervals are Student's or Welch's for means,
Wilson's and Newcombe's for shares, a bootstrap's for α_50, none corrected for being many. Near the
edge of stability a seed controls nothing, so runs are compared unpaired there. Everything is small:
MNIST, Fashion-MNIST, CIFAR-10 or speech, MLPs and small nets, two cores.

`python -m experiments.publish` makes this page and all others from the tables in
`experiments/results`; each page names the command that makes its runs.
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
  0.1 to 0.5 points; the interval above says how much that is worth.
- **DPSGD bears larger rates**: yes here, no on [the rivals' page](rivals.md), whose trials even
  point the other way (rate 0.32, n = 16: SSGD 15.2 %, one-peer 24.8 %, ring lost). There are
  momentum 0.9, rates that fall, 16 and 64 learners on sparse graphs and one seed; here plain SGD at
  a constant rate, W = 11ᵀ/n and 5 learners. [The fight](fight.md) is to decide about two of these:
  seeds and sparse graphs at its edge, which has no momentum and constant rates. Momentum 0.9 beside
  none is in its tuned half, where the rates that are survived are not judged; rates that fall are
  in its tables, with momentum alone. More than five learners are not in it.
- **SSGD\\* against the study of noise**: on [DPSGD's page](dpsgd.md) tuned noise ties with DPSGD at
  α = 1, but its σ_0 of 0.04 to 0.18 is some ten times the deviation per coordinate that DPSGD has;
  [the study of noise](noise.md) gives SSGD noise *of DPSGD's own strength*. A tie of the first and
  a failure of the second do not contradict each other.
- **Noise or direction**: the paper says that DPSGD's noise makes it adjust itself. The
  [interventions](noise.md) find no noise that does: of DPSGD's own strength at every step, with the
  learners' covariance, from another run on the same mini-batches, delayed, shuffled or with its
  sign turned, none rescues a run at α = 1.5, and DPSGD's own rescues most. At α = 1.25, where 3 of
  20 runs of SSGD survive, isotropic noise leaves it at that (3 and 4 of 20), every other kind kills
  all of them, and DPSGD survives in 19 of 20. What all of these lack is that a learner's gradient
  is taken where *its own* last step has led. It is a matter of direction, then, and not of a law of
  noise. Nor is it the rate: SSGD that takes, step by step, the α_e recorded in a run of DPSGD
  survives in none of 20 runs at either α. On Fashion-MNIST (α = 1) DPSGD itself survives in 5 of 20
  only, SSGD and eight replacements in none and that of the rate in one: none is shown to rescue
  there, either, but with so few to compare with "as well as DPSGD" stays open.
- **Nets, the other way round**: at rates where SSGD is about to fail an MLP survives with DPSGD and
  a complete graph; [an LSTM on speech, VGG11, ResNet-18 and EfficientNet-B0](nets.md) with 8
  learners and a random neighbour do not. On speech SSGD survives in 10 of 18 runs at its edge, its
  half and its quarter, EfficientNet-B0 in 6 of 12, with DPSGD none of either; VGG11 and ResNet-18
  each in 3 of 12 with SSGD and in none with DPSGD; MobileNetV2 in none of 12 with either. AlexNet
  leans towards DPSGD (7 and 5 of 12, open). Rates that warm up and fall, momentum 0.9 on images,
  and one neighbour a step set these apart from the MLP; which of them it is no study here decides.
  It is what the rivals' trials pointed to. An MLP with such rates and momentum, as in the paper's
  tables, [trains neither way](fight.md) with batch and rate 32 times as large, with the complete
  graph or a random neighbour, and both ways at an eighth of that rate.
- **Larger rates, or a better model**: after two of three warm-ups a transformer
  [bears higher peaks](language.md) with DPSGD, and after all three its test loss at its own best
  peak is 0.12 to 0.13 nats *above* SSGD's: where only DPSGD trains it is not at its best. Of the
  MLP the tuned half of [the fight](fight.md) is to decide the same.
- **A smoother loss, or a flatter place**: the paper's Theorem 1 bounds the smoothness of the loss
  averaged over the learners' deviations. [Measured](smoothness.md), at their own σ_w that average
  is as sharp as the loss itself, over the learners' own places it is sharper, and the bound is
  hundreds of times too large to say anything. What differs is where the algorithms are: soon after
  the start DPSGD's mean model lies where the Hessian's largest eigenvalue is about half of SSGD's,
  which is beyond 2/α. So DPSGD does not smooth the loss that SSGD sees; it is led to where less
  smoothing is needed, as it ends in [flatter minima](flatness.md).
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
            "re-read above; [fight](fight.md): 7 rates, 5 methods, 20 fresh seeds, criteria before "
            "runs; how many of them are made is said there; SSGD\\* is not among them",
        ),
        (
            "H2",
            "α_e at exact g and all phases of an epoch, given t and ‖g‖",
            "done: [account](account.md), criteria before runs, five seeds",
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
            "[noise](noise.md), criteria before runs; both rates on MNIST and that on "
            "Fashion-MNIST are judged",
        ),
        (
            "H5",
            "rates from far below the edge, batches, momentum",
            "[fight](fight.md): each method at its best rate, grids that grow while the best rate "
            "is at an end, ten seeds that tuned nothing; batch and rate doubled as in the paper's "
            "tables; criteria before runs; how many of them are made is said there",
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
- five of the nine cells of LENA's Table 2, tuned
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
