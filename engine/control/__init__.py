"""How far to draft, and when not to: the policy of a reply, and what it is judged by."""
