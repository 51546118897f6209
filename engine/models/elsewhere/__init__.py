"""Models that other programs left on this disk: one file a program, all of them in `scan`."""
