"""What passes cost on this machine: measured once, kept, and put into words."""
