import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const folder = new URL('../../src/cli/bench/', import.meta.url);
const START = '\nawait runBench(';
const begun = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => ({ name, text: readFileSync(new URL(name, folder), 'utf8') }))
  .filter(({ text }) => text.includes(START));

describe('benchmarks', () => {
  it('are found', () => expect(begun.length).toBeGreaterThan(8));

  it.each(begun)('define nothing after the await that starts them: $name', ({ text }) => {
    const after = text.slice(text.indexOf(START));
    expect(after.match(/^(?:const|let|class) \w+/gm) ?? []).toEqual([]);
  });
});
