"""Which file endings, file names and interpreters belong to which language. One line a language."""


def _table(lines: str) -> dict[str, str]:
    """`Language: key key key` lines as key -> language; a key in two lines is a mistake in the table."""
    found: dict[str, str] = {}
    for line in lines.strip().splitlines():
        language, _, keys = line.partition(": ")
        for key in keys.split():
            if key in found:
                raise ValueError(f"{key} stands for {found[key]} and for {language}")
            found[key] = language
    return found


BY_EXTENSION = _table("""
ABAP: abap
ActionScript: as
Ada: adb ads ada gpr
Agda: agda lagda
Alloy: als
AMPL: ampl
ANTLR: g4 g3 antlr
Apex: cls trigger apex
APL: apl dyalog aplf aplo apln
AppleScript: applescript scpt
Arduino: ino pde
AsciiDoc: adoc asciidoc
ASP.NET: aspx ascx ashx asmx master
Assembly: asm s nasm a51 masm
ATS: dats sats hats
Astro: astro
AutoHotkey: ahk ahkl
AutoIt: au3
Avro IDL: avdl
Awk: awk gawk
Ballerina: bal
Batchfile: bat cmd
Bicep: bicep bicepparam
BibTeX: bib
BitBake: bb bbappend bbclass
Blade: blade blade.php
BlitzBasic: bmx
Boo: boo
Brainfuck: b bf
C: c h cats idc
C#: cs csx cake
C++: cpp cc cxx c++ hpp hh hxx h++ ipp ixx tpp txx inl cppm tcc
Cairo: cairo
Carbon: carbon
Ceylon: ceylon
Chapel: chpl
Clarion: clw
Classic ASP: asp
Clean: icl dcl
Clojure: clj cljs cljc edn cljd
CMake: cmake cmake.in
COBOL: cob cbl cobol cpy ccp
CoffeeScript: coffee litcoffee cson _coffee iced
ColdFusion: cfm cfc cfml
Common Lisp: lisp lsp cl asd ny podsl
Coq: coq
Crystal: cr
CSS: css
CSV: csv
Cucumber: feature
CUDA: cu cuh
CUE: cue
Cypher: cypher cyp
Cython: pyx pxd pxi
D: d di
Dafny: dfy
Dart: dart
Dhall: dhall
Diff: diff patch
Dockerfile: dockerfile containerfile
DOT: gv dot
Dylan: dylan dyl intr
Eiffel: e
EJS: ejs
Elixir: ex exs
Elm: elm
Emacs Lisp: el
ERB: erb html.erb rhtml js.erb
Erlang: erl hrl escript xrl yrl app.src
F#: fs fsi fsx fsscript
F*: fst
Factor: factor
Fennel: fnl
FIRRTL: fir
Flix: flix
Forth: fth 4th forth frt
Fortran: f f77 f90 f95 f03 f08 f18 for fpp ftn
FreeBASIC: bi
Futhark: fut
G-code: gcode gco nc
GAP: gap gi
GDScript: gd
Gettext Catalog: po pot
Gleam: gleam
GLSL: glsl vert frag geom tesc tese comp vsh fsh glslv
GN: gn gni
Gnuplot: gp gnu gnuplot plt
Go: go
GraphQL: graphql gql graphqls
Groovy: groovy gvy gsh grt jenkinsfile
Hack: hack hhi
Haml: haml
Handlebars: hbs handlebars
Harbour: hb
Haskell: hs lhs hsc hs-boot cabal
Haxe: hx hxsl
HCL: hcl tf tfvars nomad
HLSL: hlsl fx fxh hlsli cginc
HTML: html htm xhtml html.hl
Hy: hy
Idris: idr lidr
Inform 7: ni i7x
INI: ini cfg conf dof editorconfig
Inno Setup: iss
Io: io
J: ijs
Janet: janet
Java: java jav jsh
Java Properties: properties
JavaScript: js mjs cjs jsx es6 es jsm ssjs bones
Jinja: jinja j2 jinja2 html.j2
JSON: json jsonl geojson webmanifest topojson har avsc mcmeta ndjson
JSON5: json5 jsonc
Jsonnet: jsonnet libsonnet
JSP: jsp jspf tag
Julia: jl
Jupyter Notebook: ipynb
Just: just
Kotlin: kt kts ktm
Lean: lean
Less: less
Lex: lex flex
Limbo: limbo
Linker Script: ld lds ldscript
Liquid: liquid
LiveScript: ls _ls
LLVM: ll
Logtalk: lgt logtalk
Lua: lua nse rbxs wlua p8 rockspec
Luau: luau
M4: m4
Makefile: mk mak make mkfile makefile
Markdown: md markdown mdown mkd mkdn mdwn livemd
Mathematica: wl nb wls mt mathematica
MATLAB: matlab
MDX: mdx
Mercury: moo
Mermaid: mmd mermaid
Meson: meson
Metal: metal
MLIR: mlir
Modelica: mo
Modula-2: mod
Modula-3: i3 m3
Mojo: mojo
Move: move
Mustache: mustache
NetLogo: nlogo
Nim: nim nims nimble nimrod
Nix: nix
Nushell: nu
Objective-C: m
Objective-C++: mm
ObjectScript: mac
OCaml: ml mli mll mly eliom ml4
Odin: odin
OpenCL: opencl clh
OpenEdge ABL: abl
OpenSCAD: scad
Org: org
Oz: oz
P4: p4
Pascal: pas dpr lpr dfm dpk lfm
Perl: pl pm t perl ph plx psgi al
PHP: php php3 php4 php5 phps phtml phpt ctp
Pikchr: pikchr
Pike: pike pmod
PlantUML: puml plantuml iuml
PLSQL: pls pck pkb pks plb plsql
Pony: pony
PostScript: ps eps pfa
PowerShell: ps1 psd1 psm1 ps1xml
Praat: praat
Processing: processing
Prolog: prolog yap pro
Protocol Buffer: proto textproto pbtxt
Pug: pug jade
Puppet: pp
PureBasic: pb pbi
PureScript: purs
Python: py pyi pyw py3 pyt gyp gypi wscript sage rpy
Q#: qs
QML: qml qbs
QMake: pri
R: r rd rsx rprofile
Racket: rkt rktl rktd scrbl
Raku: raku rakumod p6 pm6 pl6 nqp rakutest
Razor: cshtml razor
Reason: re rei
Rebol: reb rebol r2 r3
Red: red reds
reStructuredText: rst rest
Rexx: rexx rex pprx
RMarkdown: rmd qmd
Robot Framework: robot resource
Roff: roff man mdoc ms tmac nr
Ruby: rb ru rake gemspec podspec jbuilder rbw rbx thor rabl builder rbi
Rust: rs rs.in
SAS: sas
Sass: sass
Scala: scala sbt kojo
Scheme: scm ss sld sls sps
SCSS: scss
sed: sed
Shell: sh bash zsh ksh bats command fish tmux ebuild eclass tool csh tcsh
Slim: slim
Smali: smali
Smalltalk: st
Smarty: tpl
SMT: smt2 smt
Snakemake: smk snakefile
Solidity: sol
SourcePawn: sp sma
SPARQL: sparql rq
SQL: sql ddl dml cql psql mysql pgsql prc tab udf viw
Stan: stan
Standard ML: sml fun sig
Starlark: bzl star bazel
Stata: do ado doh ihlp mata matah sthlp
Stylus: styl
SuperCollider: sc scd
Svelte: svelte
SVG: svg
Swift: swift swiftinterface
SWIG: swg swig i
SystemVerilog: sv svh vh
Tcl: tcl adp tm itcl
Terra: terra
TeX: tex sty ltx dtx ins bbx cbx lbx mkii mkiv
Text: txt text
Textile: textile
Thrift: thrift
TLA+: tla
TOML: toml
TSV: tsv
TSX: tsx
Turing: tu
Turtle: ttl
Twig: twig
TypeScript: ts mts cts
Typst: typ
UnrealScript: uc
V: vv
Vala: vala vapi
VBA: bas frm vba
VBScript: vbs
Velocity: vm vtl
Verilog: v veo
VHDL: vhd vhdl vho vhi vht
Vim Script: vim vimrc vmb
Visual Basic .NET: vb vbhtml
Vue: vue
Wacc: wacc
WebAssembly: wat wast
WGSL: wgsl
Wikitext: wiki mediawiki wikitext
Wren: wren
X10: x10
XML: xml xsd xsl xslt wsdl rss plist csproj vbproj vcxproj fsproj props targets xaml resx
XML: nuspec rdf dita xul ui
XQuery: xq xqy xquery xqm xql
Xtend: xtend
YAML: yaml yml yaml.in cff syntax reek sublime-syntax clang-format
Yacc: y yacc yy
YANG: yang
YARA: yar yara
Zig: zig zon
""")

BY_NAME = _table("""
CMake: CMakeLists.txt
Dockerfile: Dockerfile dockerfile Containerfile containerfile
Elixir: mix.lock
Go Checksums: go.sum go.work.sum
Go Module: go.mod go.work
Gradle: build.gradle settings.gradle
Groovy: Jenkinsfile jenkinsfile
Haskell: cabal.project
HCL: .terraform.lock.hcl
Ignore List: .gitignore .dockerignore .npmignore .eslintignore .prettierignore .hgignore
INI: .editorconfig .gitconfig .gitmodules .npmrc .pylintrc .flake8 setup.cfg tox.ini
Java Properties: gradle.properties
JavaScript: Jakefile
JSON: .babelrc .jshintrc composer.lock flake.lock Pipfile.lock .prettierrc
JSON5: tsconfig.json
Just: Justfile justfile .justfile
Kconfig: Kconfig kconfig Kconfig.debug
Makefile: Makefile makefile GNUmakefile gnumakefile Makefile.am Makefile.in Kbuild BSDmakefile
M4: configure.ac configure.in
Meson: meson.build meson_options.txt
Nginx: nginx.conf
Perl: Makefile.PL Rexfile cpanfile
Procfile: Procfile procfile
Python: SConstruct SConscript wscript
Ruby: Gemfile gemfile Rakefile rakefile Vagrantfile vagrantfile Podfile podfile
Ruby: Capfile Guardfile Brewfile Fastfile Berksfile Thorfile Dangerfile config.ru
Shell: .bashrc .bash_profile .profile .zshrc .bash_aliases .bash_logout PKGBUILD APKBUILD
Shell: .envrc gradlew mvnw .zprofile .zshenv configure
Snakemake: Snakefile
Starlark: BUILD BUILD.bazel WORKSPACE WORKSPACE.bazel MODULE.bazel Tiltfile BUCK
Text: LICENSE COPYING README README.txt AUTHORS NOTICE CHANGELOG INSTALL CONTRIBUTING COPYING.LESSER
Text: requirements.txt UNLICENSE LICENCE NEWS TODO THANKS
TOML: Cargo.lock Pipfile poetry.lock uv.lock
Vim Script: .vimrc vimrc .gvimrc _vimrc
XML: pom.xml .classpath .project
YAML: .clang-format .clang-tidy .clangd pubspec.lock CITATION.cff
Git Attributes: .gitattributes
Git Config: .mailmap CODEOWNERS
Emacs Lisp: .emacs
Common Lisp: .sbclrc
R: .Rprofile NAMESPACE
Debian Control: control
Earthly: Earthfile
""")

BY_INTERPRETER = _table("""
Awk: awk gawk mawk nawk
Clojure: bb clojure
Common Lisp: sbcl clisp ecl
Crystal: crystal
D: rdmd
Dart: dart
Elixir: elixir
Emacs Lisp: emacs
Erlang: escript
Groovy: groovy
Haskell: runhaskell runghc stack
JavaScript: node nodejs deno bun
Julia: julia
Kotlin: kotlin
Lua: lua luajit
Makefile: make gmake
Nix: nix-shell
Nushell: nu
OCaml: ocaml ocamlrun ocamlscript
Perl: perl
PHP: php
PowerShell: pwsh
Prolog: swipl
Python: python pypy python2 python3 sage ipython
R: Rscript
Racket: racket
Raku: raku perl6
Ruby: ruby jruby macruby rake
Scala: scala
Scheme: guile csi chicken
sed: sed
Shell: sh bash zsh ksh dash ash fish rc csh tcsh bats mksh openrc-run
Swift: swift
Tcl: tclsh wish expect
TypeScript: ts-node tsx
""")
