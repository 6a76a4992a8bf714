"""Convolutional nets on images and an LSTM on speech: SSGD, SSGD* and DPSGD by one recipe."""
