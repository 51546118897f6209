"""Child processes: whether they still live, how they are ended, and what they say."""
