"""llama.cpp through ctypes: the only folder that knows pointers and return codes.

Importing this package loads the shared library, so only the engine process imports it.
"""
