"""The interface process: web page, conversations, preferences, downloads. Never llama_cpp."""
