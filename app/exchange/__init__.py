"""Chats in and out: one neutral form, a tree of messages, and one file for each format."""
