"""The boundary between the two processes: what starts the engine, and what they say."""
