"""How comments and quotes are written in the main families of programming languages."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gristmill.kernels.text.code_scan import BACKTICK, DOUBLE, MARK_BYTES, MARKS, SINGLE, TRIPLE


class Family(NamedTuple):
    languages: str
    """Names as GitHub writes them, in lower case, separated by commas."""
    lines: tuple[str, ...]
    """Marks that begin a comment to the end of the line."""
    blocks: tuple[tuple[str, str], ...] = ()
    quotes: int = DOUBLE


# In Rust, Swift and Lisp a single ' is not a quote.
FAMILIES = (
    Family(
        "c,c++,objective-c,java,c#,scala,dart,arduino,cuda,opencl,glsl,hlsl,protocol buffer,verilog,systemverilog,"
        "solidity,scss,less,groovy,actionscript,stylus,apex,vala,d,thrift,jsonnet,json5,zig,antlr,v",
        ("//",),
        (("/*", "*/"),),
        DOUBLE | SINGLE,
    ),
    Family("go,javascript,typescript,jsx,tsx,vue,svelte", ("//",), (("/*", "*/"),), DOUBLE | SINGLE | BACKTICK),
    Family("rust,swift,kotlin", ("//",), (("/*", "*/"),)),
    Family("f#", ("//",), (("(*", "*)"),)),
    Family("ocaml,standard ml,coq,mathematica", (), (("(*", "*)"),)),
    Family("css", (), (("/*", "*/"),), DOUBLE | SINGLE),
    Family("php", ("//", "#"), (("/*", "*/"),), DOUBLE | SINGLE),
    Family("python,starlark,cython,cairo,mojo", ("#",), (), DOUBLE | SINGLE | TRIPLE),
    Family(
        "ruby,perl,shell,r,yaml,toml,makefile,dockerfile,cmake,elixir,tcl,awk,nix,crystal,julia,coffeescript,fish,"
        "graphql,gdscript,raku,hcl,nim",
        ("#",),
        (),
        DOUBLE | SINGLE,
    ),
    Family("powershell", ("#",), (("<#", "#>"),), DOUBLE | SINGLE),
    Family("sql,plsql,plpgsql,tsql", ("--",), (("/*", "*/"),), DOUBLE | SINGLE),
    Family("lua", ("--",), (("--[[", "]]"),), DOUBLE | SINGLE),
    Family("haskell,elm,purescript,idris,agda", ("--",), (("{-", "-}"),)),
    Family("ada,vhdl", ("--",)),
    Family("common lisp,emacs lisp,scheme,racket,clojure,assembly,llvm,autohotkey,ini", (";",)),
    Family("tex,erlang,prolog,matlab,postscript", ("%",), (), 0),
    Family("fortran", ("!",), (), DOUBLE | SINGLE),
    Family("visual basic .net,vba,vbscript", ("'",)),
    Family("html,xml,svg,markdown,xslt", (), (("<!--", "-->"),), 0),
    Family("pascal,delphi", ("//",), (("{", "}"), ("(*", "*)")), SINGLE),
)

FAMILY_OF = {language: place for place, family in enumerate(FAMILIES) for language in family.languages.split(",")}


def marks() -> npt.NDArray[np.uint8]:
    """The marks of every family, as the kernel takes them."""
    table = np.zeros((len(FAMILIES), MARKS, MARK_BYTES), np.uint8)
    for row, family in zip(table, FAMILIES, strict=True):
        for place, mark in enumerate(family.lines):
            row[place, : len(mark)] = np.frombuffer(mark.encode(), np.uint8)
        for place, block in enumerate(family.blocks):
            for side, mark in enumerate(block):
                row[2 + 2 * place + side, : len(mark)] = np.frombuffer(mark.encode(), np.uint8)
    return table


def quotes() -> npt.NDArray[np.int64]:
    return np.array([family.quotes for family in FAMILIES], np.int64)
