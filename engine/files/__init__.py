"""Readers and writers of foreign and own file formats."""
