"""Whether drafting pays on this machine: measured against plain decoding, and against others."""
