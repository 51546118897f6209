"""Models on disk: the catalogue, GGUF inspection, pair checks, memory and fetching."""
