"""Everything that proposes tokens: one file each, one protocol (base.py)."""
