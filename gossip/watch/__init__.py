"""`python -m gossip.watch`: the curves of runs, going on or over, in the terminal."""
