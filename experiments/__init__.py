"""The published figures and tables again, one file each; README.md says what came out.

python -m experiments.dpsgd.fig2                  # n = 5 learners: DPSGD, SSGD and SSGD*
python -m experiments.dpsgd.topologies   # n = 16 learners on different graphs
python -m experiments.publish               # tables, figures and page from finished runs
python -m experiments.bench                 # what a step costs, see bench/README.md
python -m experiments.gpu_check             # the GPU code on one GPU, see gpu_check/README.md
"""
