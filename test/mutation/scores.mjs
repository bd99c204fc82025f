import { existsSync, readFileSync, writeFileSync } from 'node:fs';

const HEAD = `# Mutants killed, by file

Written by \`npm run test:mutation\`, in percent of all mutants of a file that are tested (not those that are static or ignored);
what timed out counts as killed, what no test reaches as not.

`;

const row = (name, { Killed = 0, Timeout = 0, Survived = 0, NoCoverage = 0 }) => {
  const all = Killed + Timeout + Survived + NoCoverage;
  if (all === 0) return '';
  const score = ((100 * (Killed + Timeout)) / all).toFixed(1);
  return `| ${[name, score, all, Killed, Timeout, Survived, NoCoverage].join(' | ')} |\n`;
};

const count = (mutants) => {
  const by = {};
  for (const { status } of mutants) by[status] = (by[status] ?? 0) + 1;
  return by;
};

const reportOf = (module) => {
  const report = `.cache/mutation/${module}.json`;
  return existsSync(report) ? Object.entries(JSON.parse(readFileSync(report, 'utf8')).files).sort() : [];
};

/** A line each: where, what stood there, what stood there instead and no test saw. Of these files, or of all. */
export const printSurvivors = (module, files) => {
  const short = (text) => text.replaceAll(/\s+/g, ' ').slice(0, 60);
  for (const [file, { source, mutants }] of reportOf(module)) {
    if (files.length > 0 && !files.includes(file)) continue;
    const lines = source.split('\n');
    for (const { status, location, mutatorName, replacement } of mutants) {
      if (status !== 'Survived' && status !== 'NoCoverage') continue;
      const { start, end } = location;
      const was = lines[start.line - 1].slice(
        start.column - 1,
        start.line === end.line ? end.column - 1 : undefined,
      );
      const mark = status === 'Survived' ? '' : ' (not reached)';
      console.log(
        `${file}:${start.line}:${start.column} ${mutatorName}${mark}: ${short(was)}  =>  ${short(replacement)}`,
      );
    }
  }
};

const SCORES = 'test/mutation/scores.md';

/** As it was written last: a module that was run elsewhere keeps its table. */
const tableBefore = (module) => {
  const [, ...tables] = readFileSync(SCORES, 'utf8').split(/^(?=## )/m);
  return tables.find((table) => table.startsWith(`## \`${module}\``))?.trimEnd() ?? null;
};

const tableOf = (module, files) => {
  let text = `## \`${module}\`\n\n| file | score | mutants | killed | timed out | survived | not reached |\n|-|-|-|-|-|-|-|\n`;
  for (const [file, { mutants }] of files) text += row(`\`${file}\``, count(mutants));
  return `${text}${row('**all**', count(files.flatMap(([, { mutants }]) => mutants)))}`.trimEnd();
};

/** Writes scores.md from the modules' reports. */
export const writeScores = (modules) => {
  const tables = modules.map((module) => {
    const files = reportOf(module);
    return files.length > 0 ? tableOf(module, files) : tableBefore(module);
  });
  writeFileSync(SCORES, `${HEAD}${tables.filter((table) => table !== null).join('\n\n')}\n`);
};
