"""Files that go with messages: read in a child process, kept once, told to the model as text."""
