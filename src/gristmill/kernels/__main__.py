"""Compile everything that is listed, before anybody waits for it: python -m gristmill.kernels

For images that machines are started from, and for the time in which another program has one core. Who needs a kernel
meanwhile takes what is there and compiles the rest.
"""

from argparse import ArgumentParser

from gristmill.kernels.ahead import compile_all, listed
from gristmill.kernels.code_files import OthersCanWrite

if __name__ == "__main__":
    try:
        compile_all(listed())
    except OthersCanWrite as error:
        ArgumentParser().exit(2, f"{error}\n")
