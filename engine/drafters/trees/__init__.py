"""Shapes of drafted trees, fixed and grown."""
