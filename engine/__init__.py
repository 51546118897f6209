"""The engine: runs GGUF models with speculative decoding, and can be used without the page."""
