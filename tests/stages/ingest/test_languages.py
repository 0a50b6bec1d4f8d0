import pytest

from gristmill.stages.ingest.languages import BY_EXTENSION, BY_NAME, HEAD_CHARACTERS, by_key, language


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a/b.py", ("Python", "extension")),
        ("A.PY", ("Python", "extension")),
        ("src/Makefile", ("Makefile", "name")),
        ("CMakeLists.txt", ("CMake", "name")),
        ("notes.txt", ("Text", "extension")),
        ("Dockerfile", ("Dockerfile", "name")),
        ("view.html.erb", ("ERB", "extension")),
        ("types.d.ts", ("TypeScript", "extension")),
        ("a.b.unknown", None),
        ("archive.tar.unknown", None),
        ("go.mod", ("Go Module", "name")),
        ("noextension", None),
        (".gitignore", ("Ignore List", "name")),
        ("x.ipynb", ("Jupyter Notebook", "extension")),
    ],
)
def test_the_name_determines_the_language(name, expected):
    """An exact name takes precedence over an extension, and the longest known extension counts, in any case."""
    assert language(name, "") == expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.h", "#ifndef A\nint f(void);\n", "C"),
        ("a.h", "namespace x {\nclass A {\n public:\n};\n}", "C++"),
        ("a.h", "#pragma once\n#include <vector>\nstd::vector<int> f();\n", "C++"),
        ("a.h", "#import <Foundation/Foundation.h>\n@interface A : NSObject\n", "Objective-C"),
        ("a.m", "#import \"a.h\"\n@implementation A\n@end\n", "Objective-C"),
        ("a.m", "function y = f(x)\n% comment\ny = x;\nend\n", "MATLAB"),
        ("a.m", "(* a package *)\nBeginPackage[\"A`\"]\n", "Mathematica"),
        ("a.pl", "use strict;\nmy $x = 1;\n", "Perl"),
        ("a.pl", "parent(a, b).\ngrand(X, Z) :- parent(X, Y), parent(Y, Z).\n", "Prolog"),
        ("a.v", "`timescale 1ns/1ps\nmodule m(input a);\nendmodule\n", "Verilog"),
        ("a.v", "Require Import Arith.\nLemma a : 1 = 1.\nProof. auto. Qed.\n", "Coq"),
        ("a.v", "fn main() {\n\tprintln('hi')\n}\n", "V"),
        ("a.ts", "export const x: number = 1;\n", "TypeScript"),
        ("a.ts", "<?xml version=\"1.0\"?>\n<!DOCTYPE TS>\n<TS></TS>", "XML"),
        ("a.cls", "\\NeedsTeXFormat{LaTeX2e}\n\\ProvidesClass{a}\n", "TeX"),
        ("a.cls", "public with sharing class A {\n}\n", "Apex"),
        ("a.cls", "VERSION 1.0 CLASS\nBEGIN\nEND\nAttribute VB_Name = \"A\"\n", "VBA"),
        ("a.fs", "module A\nlet x = 1\n", "F#"),
        ("a.fs", "#version 330\nvoid main() {}\n", "GLSL"),
        ("a.d", "main.o: main.c util.h\n", "Makefile"),
        ("a.d", "module a;\nimport std.stdio;\n", "D"),
        ("a.cl", "__kernel void f(__global int* a) {}\n", "OpenCL"),
        ("a.cl", "(defun f (x) x)\n", "Common Lisp"),
        ("a.pro", "QT += core\nSOURCES += main.cpp\n", "QMake"),
        ("a.inc", "<?php\n$x = 1;\n", "PHP"),
        ("a.r", "x <- c(1, 2)\n", "R"),
        ("ls.1", ".TH LS 1\n.SH NAME\n", "Roff"),
    ],
)  # fmt: skip
def test_the_content_separates_languages_with_one_extension(name, text, expected):
    """If several languages share an extension, the content decides."""
    assert language(name, text)[0] == expected


@pytest.mark.parametrize("name", ["data.inc", "release.1", "x.b"])
def test_an_ambiguous_extension_needs_content(name):
    """Extensions that any file may have need a sign in the content."""
    assert language(name, "just words\n") is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("#!/bin/sh", "Shell"),
        ("#!/usr/bin/env python3.11", "Python"),
        ("#! /usr/bin/env -S deno run", "JavaScript"),
        ("#!/usr/bin/env PATH=/x node", "JavaScript"),
        ("#!/usr/local/bin/perl5 -w", "Perl"),
        ("#!/usr/bin/unheard", None),
        ("#!", None),
        ("no shebang", None),
    ],
)
def test_the_first_line_identifies_a_script(line, expected):
    """A script without an extension is recognised by its interpreter, through env and with versions."""
    found = language("bin/tool", line + "\n")
    assert found == (None if expected is None else (expected, "shebang"))


def test_table_is_broad_and_has_no_key_twice():
    """The table has the expected size, and a duplicate key is rejected."""
    assert len(BY_EXTENSION) >= 250
    assert len(set(BY_EXTENSION.values())) >= 120
    assert all(key == key.lower() and not key.startswith(".") for key in BY_EXTENSION)
    assert "Makefile" in BY_NAME
    with pytest.raises(ValueError, match="x means both A and B"):
        by_key({"A": "x", "B": "y x"})


def test_rules_only_read_the_head():
    """A sign counts only in the first characters of a file, so work does not grow with the file."""
    sign = "namespace x {\n"
    assert language("a.h", "\n" * (HEAD_CHARACTERS - len(sign)) + sign) == ("C++", "content")
    assert language("a.h", "\n" * HEAD_CHARACTERS + sign) == ("C", "extension")
