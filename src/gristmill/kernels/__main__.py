"""Compile everything that is listed, before anybody waits for it: python -m gristmill.kernels

For images that machines are started from, and for the time in which another program has one core. Who needs a kernel
meanwhile takes what is there and compiles the rest.
"""

from gristmill.kernels.ahead import compile_all, listed

if __name__ == "__main__":
    compile_all(listed())
