"""Compiles all listed kernels ahead of time: python -m gristmill.kernels

Use it to build machine images, or while another program leaves one core idle. A process that needs a kernel meanwhile
uses what is ready and compiles the rest.
"""

from argparse import ArgumentParser

from gristmill.kernels.ahead import compile_all, listed
from gristmill.kernels.code_files import OthersCanWrite

if __name__ == "__main__":
    try:
        compile_all(listed())
    except OthersCanWrite as error:
        ArgumentParser().exit(2, f"{error}\n")
