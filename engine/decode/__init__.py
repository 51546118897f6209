"""The round loop and the trace of its rounds."""
