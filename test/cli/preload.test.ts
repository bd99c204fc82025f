/** The adapter that a command line starts engines on, found before it is parsed; null if it starts none. */
import { expect, test } from 'vitest';
import { preloadedAdapter } from '../../src/platform/node/preload.ts';

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
])('preloadedAdapter of kvferry %s is %s', (line, adapter) => {
  expect(preloadedAdapter(line.split(' '))).toBe(adapter);
});
