"""Whether and how far to draft: the policy of a reply, and the figures it is judged by."""
