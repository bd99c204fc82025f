/** What a start loads of the build. What a command or an engine's thread does not need is loaded on demand. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { bundled } from '../../src/platform/node/paths.ts';

/** The text of a file of the build and of all that it imports statically. */
function loadedWith(file: string, seen = new Map<string, string>()): string {
  if (seen.has(file)) return '';
  const text = readFileSync(file, 'utf8');
  seen.set(file, text);
  for (const [, from] of text.matchAll(/^(?:import|export) .*?"(\.[^"]+)";$/gm))
    loadedWith(path.join(path.dirname(file), from!), seen);
  return [...seen.values()].join('\n');
}

const part = (folder: string, name: string): string =>
  path.join(path.dirname(bundled('kvferry')), folder, `${name}.js`);

/** Which of the marks are in the loaded text. */
const found = (loaded: string, marks: readonly string[]): string[] =>
  marks.filter((mark) => loaded.includes(mark));

describe('what a start loads', () => {
  it('is one file before signals end the program', () => {
    const files = new Map<string, string>();
    loadedWith(bundled('kvferry'), files);
    expect([...files.keys()]).toEqual([bundled('kvferry')]);
  });

  it("includes neither commands nor schemas before engines' threads are started", () => {
    const loaded = loadedWith(part('program', 'program'));
    expect(found(loaded, ['function startThreadsAhead(', 'parseArguments(', 'ZodObject'])).toEqual([
      'function startThreadsAhead(',
    ]);
  });

  it('includes no command before one is named', () => {
    const loaded = loadedWith(part('program', 'app'));
    expect(found(loaded, ['parseArguments(', 'usage: "run"', 'usage: "plan"'])).toEqual(['parseArguments(']);
  });

  it('includes for run no other command, recorder or report pages, and comes from few files', () => {
    const files = new Map<string, string>();
    const app = loadedWith(part('program', 'app'), files);
    loadedWith(part('program', 'node-deps'), files);
    const [, run] = /import\("\.\/([^"]+)\.js"\)\)\.runSpec/.exec(app)!;
    const marks = ['usage: "run"', 'usage: "plan"', 'function renderHtml(', 'Recorder = class'];
    expect(found(loadedWith(part('program', run!), files), marks)).toEqual(['usage: "run"']);
    expect(files.size).toBeLessThan(10);
  });

  it("includes for an engine's thread neither schemas nor the checkpoint reader", () => {
    const marks = ['EngineHost = class', 'ZodObject', 'CheckpointWeights = class'];
    expect(found(loadedWith(part('engine', 'engine-thread')), marks)).toEqual(['EngineHost = class']);
  });
});
