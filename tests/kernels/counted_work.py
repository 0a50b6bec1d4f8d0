"""A pytest plugin: compiled kernels count the blocks of code that they run.

Each basic block adds 1 to one number, so the count depends on the input alone, and `tests/laws/worst_cases.py` adds it
to the work that the meter of Python code sees. Without the plugin kernels count nothing.

Compiled code differs from the usual, so NUMBA_CACHE_DIR must name a separate folder:
NUMBA_CACHE_DIR=… pytest -p tests.kernels.counted_work tests/laws/test_every_stage_is_linear.py
"""

from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba.core import codegen

BLOCKS = np.zeros(1, np.uint64)
"""How many blocks were run."""
_NAME = "gristmill_blocks"
llvmlite.binding.add_symbol(_NAME, BLOCKS.ctypes.data)
_plain = codegen.CPUCodeLibrary.add_ir_module


def add_ir_module(self: Any, module: Any) -> None:
    number = ir.IntType(64)
    count = module.globals.get(_NAME) or ir.GlobalVariable(module, number, _NAME)
    for function in module.functions:
        for block in function.blocks:
            builder = ir.IRBuilder(block)
            first = next((one for one in block.instructions if not isinstance(one, ir.PhiInstr)), None)
            if first is not None:
                builder.position_before(first)
                builder.store(builder.add(builder.load(count), number(1)), count)
    _plain(self, module)


codegen.CPUCodeLibrary.add_ir_module = add_ir_module
