import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import type { CliDeps } from '../../src/cli/deps.ts';
import { widthOf } from '../../src/cli/output/format.ts';
import { createProgress } from '../../src/cli/output/progress.ts';

it('without a terminal, progress is a line now and then, with the detail if there is one', () => {
  const written: string[] = [];
  let nowMs = 0;
  const stderr = { write: (text: string) => written.push(text), isTTY: false };
  const progress = createProgress({ stderr, progressStream: null, now: () => nowMs } as unknown as CliDeps);
  progress.begin('simulations', 4);
  for (const detail of ['soon', '', '3.0 s']) {
    progress.update(1, detail);
    nowMs += 10_000;
  }
  expect(written).toEqual([
    'simulations: 4 to do\n',
    'simulations: 1 of 4\n',
    'simulations: 1 of 4, 3.0 s\n',
  ]);
  written.length = 0;
  progress.begin('warming up', null);
  nowMs += 10_000;
  progress.update(3, '3 turns');
  expect(written).toEqual(['warming up\n', 'warming up: 3 turns\n']);
});

it('on a terminal, a milestone that is wider is wrapped', () => {
  const written: string[] = [];
  const stderr = { write: (text: string) => written.push(text), isTTY: true };
  const progressStream = new PassThrough();
  createProgress({ stderr, progressStream } as unknown as CliDeps).line('ready '.repeat(20).trim());
  expect(written.join('').split('\n').map(widthOf)).toEqual([77, 41, 0]);
});
