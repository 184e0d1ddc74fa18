"""Fields on a periodic box, solved by Fourier series."""
