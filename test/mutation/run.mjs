/**
 * npm run test:mutation [-- ROOM [FILE ...]]: changes the code of a room, or of some of its files (src/engine/request.ts), in
 * one place at a time, and asks that a test of that room fails. What was tested before is not tested again unless it, or
 * its tests, changed (.cache/mutation). Then scores.md is written anew, from all rooms that have a report.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { TESTED_BY, TOO_SLOW } from './rooms.mjs';
import { printSurvivors, writeScores } from './scores.mjs';

const rooms = Object.keys(TESTED_BY);
const [first, ...rest] = process.argv.slice(2);
const asked = rooms.includes(first) ? [first] : rooms;
const files = rest.filter((arg) => arg.endsWith('.ts'));
const others = rest.filter((arg) => !arg.endsWith('.ts'));

const testsOf = (room) =>
  TESTED_BY[room].flatMap((from) =>
    readdirSync(path.dirname(from), { recursive: true, encoding: 'utf8' })
      .map((file) => path.join(path.dirname(from), file))
      .filter((file) => file.startsWith(from) && file.endsWith('.test.ts') && !TOO_SLOW.includes(file)),
  );

let status = 0;
for (const room of asked) {
  console.log(`== ${room}`);
  const mutate = files.length > 0 ? files : [`src/${room}/**/*.ts`];
  const args = [
    ...['run', 'test/mutation/stryker.json', '--incrementalFile', `.cache/mutation/${room}.json`],
    ...['--mutate', mutate.join(','), '--testFiles', testsOf(room).join(','), ...others],
  ];
  const run = spawnSync('npx', ['stryker', ...args], { stdio: 'inherit' });
  status ||= run.status ?? 1;
  printSurvivors(room, files);
}
writeScores(rooms);
process.exitCode = status;
