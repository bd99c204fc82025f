/** Whether a command line starts engines, before it is read for good. */
import { expect, test } from 'vitest';
import { adapterAhead } from '../../src/platform/node/ahead.ts';

test.each([
  ['run', 'auto'],
  ['run --adapter lavapipe', 'lavapipe'],
  ['bench gen.json --adapter=swiftshader --seed 1', 'swiftshader'],
  ['bench --paths --json url', 'auto'],
  ['run -- --help', 'auto'],
  ['bench --endpoint http://localhost:8000', null],
  ['bench --endpoint=http://localhost:8000', null],
  ['bench --url http://localhost:8000 --adapter gpu', null],
  ['bench --url=http://localhost:8000', null],
  ['run --help', null],
  ['serve -h', null],
  ['bench -v', null],
  ['run --version', null],
  ['store ls ./kv', null],
  ['', null],
])('kvferry %s: %s', (line, adapter) => {
  expect(adapterAhead(line.split(' '))).toBe(adapter);
});
