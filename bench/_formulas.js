// Renders formulas for bench/_formulas.py: node _formulas.js TOOL < lines of {tex, display} > lines of
// {annotated, bare, mathml}, or {error}. Modules are looked up in the working folder.
const {createRequire} = require('module');
const load = createRequire(process.cwd() + '/');
const tool = process.argv[2];
const lines = require('fs').readFileSync(0, 'utf8').split('\n').filter(Boolean).map(line => JSON.parse(line));
const refuse = (_, error) => { throw error; };
const mathml = markup => markup.match(/<math[^]*<\/math>/)[0];

async function renderer() {
  if (tool === 'katex') {
    const katex = load('katex');
    return (tex, displayMode) => {
      const annotated = katex.renderToString(tex, {displayMode, output: 'htmlAndMathml', strict: 'ignore'});
      const bare = annotated.replace(/<annotation [^]*?<\/annotation>/g, '');
      return {annotated, bare, mathml: mathml(bare)};
    };
  }
  if (tool === 'temml') {
    const temml = load('temml');
    return (tex, displayMode) => {
      const bare = temml.renderToString(tex, {displayMode, throwOnError: true});
      return {annotated: temml.renderToString(tex, {displayMode, annotate: true}), bare, mathml: bare};
    };
  }
  if (tool === 'mathml-to-latex') {
    const {MathMLToLaTeX} = load('mathml-to-latex');
    return mathml => ({found: MathMLToLaTeX.convert(mathml)});
  }
  if (tool === 'mathjax3') { // no release of version 3 writes the TeX of a formula
    const {mathjax} = load('mathjax-full/js/mathjax.js');
    const {TeX} = load('mathjax-full/js/input/tex.js');
    const {CHTML} = load('mathjax-full/js/output/chtml.js');
    const {liteAdaptor} = load('mathjax-full/js/adaptors/liteAdaptor.js');
    const {RegisterHTMLHandler} = load('mathjax-full/js/handlers/html.js');
    const {AssistiveMmlHandler} = load('mathjax-full/js/a11y/assistive-mml.js');
    const {AllPackages} = load('mathjax-full/js/input/tex/AllPackages.js');
    const adaptor = liteAdaptor();
    AssistiveMmlHandler(RegisterHTMLHandler(adaptor));
    const packages = AllPackages.filter(name => !['bussproofs', 'noundefined', 'noerrors'].includes(name));
    const InputJax = new TeX({packages, formatError: refuse});
    const page = mathjax.document('', {InputJax, OutputJax: new CHTML({fontURL: 'x'})});
    return (tex, display) => {
      const bare = adaptor.outerHTML(page.convert(tex, {display}));
      return {annotated: null, bare, mathml: mathml(bare)};
    };
  }
  const MathJax = await load('mathjax').init({
    loader: {load: ['input/tex', 'output/chtml', 'adaptors/liteDOM', 'a11y/assistive-mml']},
    options: {enableAssistiveMml: true}, startup: {typeset: false}, tex: {formatError: refuse},
  });
  return async (tex, display) => {
    const node = await MathJax.tex2chtmlPromise(tex, {display});
    const annotated = MathJax.startup.adaptor.outerHTML(node);
    const bare = annotated.replace(/ data-latex="[^"]*"/g, '');
    return {annotated, bare, mathml: mathml(bare)};
  };
}

renderer().then(async render => {
  for (const {tex, display} of lines) {
    let answer;
    try { answer = await render(tex, display); } catch (error) { answer = {error: String(error.message || error)}; }
    process.stdout.write(JSON.stringify(answer) + '\n');
  }
});
