"""What a drafter learns from: prompts, collecting, storing."""
