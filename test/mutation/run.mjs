/**
 * npm run test:mutation [-- ROOM ... [--mutate FILES]]: changes the code of a room in one place at a time, and asks that a
 * test of that room fails. Reports lie in .cache/mutation; what was tested before and has not changed is not tested again.
 */
import { spawnSync } from 'node:child_process';

const ROOMS = ['transport', 'engine', 'connector', 'router'];
/** Deliberate damage, which `verify` does to see that it notices. */
const LEFT_OUT = '!src/transport/faults.ts';

const args = process.argv.slice(2);
const asked = args.filter((arg) => ROOMS.includes(arg));
const others = args.filter((arg) => !ROOMS.includes(arg));
let status = 0;
for (const room of asked.length > 0 ? asked : ROOMS) {
  const files = others.includes('--mutate') ? [] : ['--mutate', `src/${room}/**/*.ts,${LEFT_OUT}`];
  const to = ['--incrementalFile', `.cache/mutation/${room}.json`];
  const env = { ...process.env, KVFERRY_MUTATED_ROOM: room };
  console.log(`== ${room}`);
  const run = spawnSync('npx', ['stryker', 'run', 'test/mutation/stryker.json', ...to, ...files, ...others], {
    stdio: 'inherit',
    env,
  });
  status ||= run.status ?? 1;
}
process.exitCode = status;
