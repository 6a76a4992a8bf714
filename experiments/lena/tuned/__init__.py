"""Tables 1 and 2 of the LENA paper again: 20 epochs, and the rate tuned in every cell."""
