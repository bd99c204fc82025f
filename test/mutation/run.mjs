/**
 * npm run test:mutation [-- MODULE [FILE ...]]: changes the code of a module, or of some of its files (src/engine/request.ts),
 * in one place at a time, and expects a test of that module to fail. Mutants whose code and tests have not changed are not
 * tested again (.cache/mutation). Then scores.md is written again from the reports of all modules.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { LEFT_OUT, TESTED_BY, TOO_SLOW } from './modules.mjs';
import { printSurvivors, writeScores } from './scores.mjs';

const modules = Object.keys(TESTED_BY);
const [first, ...rest] = process.argv.slice(2);
if (first !== undefined && !modules.includes(first)) {
  console.error(
    `there is no module '${first}': wanted one of ${modules.join(', ')}, optionally followed by files of it`,
  );
  process.exit(2);
}
const asked = first === undefined ? modules : [first];
const files = rest.filter((arg) => arg.endsWith('.ts'));
const others = rest.filter((arg) => !arg.endsWith('.ts'));

const testsOf = (module) =>
  TESTED_BY[module].flatMap((from) =>
    readdirSync(path.dirname(from), { recursive: true, encoding: 'utf8' })
      .map((file) => path.join(path.dirname(from), file))
      .filter((file) => file.startsWith(from) && file.endsWith('.test.ts') && !TOO_SLOW.includes(file)),
  );

let status = 0;
for (const module of asked) {
  console.log(`== ${module}`);
  const mutate = files.length > 0 ? files : [`src/${module}/**/*.ts`, ...LEFT_OUT.map((file) => `!${file}`)];
  const args = [
    ...['run', 'test/mutation/stryker.json', '--incrementalFile', `.cache/mutation/${module}.json`],
    ...['--mutate', mutate.join(','), '--testFiles', testsOf(module).join(','), ...others],
  ];
  const run = spawnSync('npx', ['stryker', ...args], { stdio: 'inherit' });
  status ||= run.status ?? 1;
  printSurvivors(module, files);
}
writeScores(modules);
process.exitCode = status;
