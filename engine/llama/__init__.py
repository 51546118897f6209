"""llama.cpp through ctypes: the only folder that knows pointers and return codes.

Importing this package loads the shared library, so only the engine process imports it.
"""

import os

# GNU OpenMP's threads spin at every barrier by default, up to a thousand times a pass. Beside any
# other busy program (a browser drawing the page) that makes passes 2 to 10 times slower; a short
# spin costs nothing measurable on an idle machine. Must be set before the library is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
# Where a debugger is installed, ggml would spend seconds in it before the process may end.
os.environ.setdefault("GGML_NO_BACKTRACE", "1")
