// Answers, for symbols given by their places, where TypeScript's language service finds references.
// Reads {root, typescript, files, symbols: [{path, line, column}]} as JSON from standard input; writes one line of JSON for each symbol:
// the places [path, line] of its references, and apart from them those of members of other types that it implements or overrides.
"use strict";

const fs = require("fs");
const path = require("path");

const asked = JSON.parse(fs.readFileSync(0, "utf8"));
const ts = require(asked.typescript);
const root = fs.realpathSync(asked.root);

function optionsOf() {
  const found = ["tsconfig.json", "jsconfig.json"].map((name) => path.join(root, name)).find((name) => fs.existsSync(name));
  const said = found ? ts.parseJsonConfigFileContent(ts.readConfigFile(found, ts.sys.readFile).config, ts.sys, root).options : {};
  return {
    ...said, target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler, allowJs: true, checkJs: false, noEmit: true, jsx: said.jsx ?? ts.JsxEmit.Preserve, resolveJsonModule: true, types: [],
    allowImportingTsExtensions: true, composite: false, incremental: false, declaration: false, maxNodeModuleJsDepth: 2,
  };
}

const names = asked.files.map((name) => path.join(root, name));
const options = optionsOf();
const host = {
  getScriptFileNames: () => names,
  getScriptVersion: () => "1",
  getScriptSnapshot: (name) =>
    fs.existsSync(name) ? ts.ScriptSnapshot.fromString(fs.readFileSync(name, "utf8")) : undefined,
  getCurrentDirectory: () => root,
  getCompilationSettings: () => options,
  getDefaultLibFileName: (given) => ts.getDefaultLibFilePath(given),
  fileExists: ts.sys.fileExists,
  readFile: ts.sys.readFile,
  readDirectory: ts.sys.readDirectory,
  directoryExists: ts.sys.directoryExists,
  getDirectories: ts.sys.getDirectories,
  realpath: ts.sys.realpath,
};
const service = ts.createLanguageService(host);
const program = service.getProgram();

function placeOf(reference) {
  const file = program.getSourceFile(reference.fileName);
  const at = file.getLineAndCharacterOfPosition(reference.textSpan.start);
  return [path.relative(root, reference.fileName), at.line + 1];
}

function answer(symbol) {
  const name = path.join(root, symbol.path);
  const file = program.getSourceFile(name);
  if (!file) return null;
  // A byte order mark belongs to no line here, and columns count UTF-16 units.
  const start = file.getPositionOfLineAndCharacter(symbol.line - 1, symbol.column);
  const found = service.findReferences(name, start);
  if (!found) return null;
  const own = [];
  const related = [];
  for (const group of found) {
    const where = placeOf(group.definition);
    const isOwn = group.definition.kind === "alias" || (where[0] === symbol.path && symbol.lines.includes(where[1]));
    for (const reference of group.references) (isOwn ? own : related).push(placeOf(reference));
  }
  return { own, related };
}

for (const symbol of asked.symbols) {
  let found = null;
  try {
    found = answer(symbol);
  } catch (error) {
    found = { error: String(error) };
  }
  process.stdout.write(JSON.stringify(found) + "\n");
}
