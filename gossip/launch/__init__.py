"""`python -m gossip.launch`: mpirun with what the installed MPI needs, and again on fewer."""
