import fc from 'fast-check';
import { expect, it } from 'vitest';
import { PrefixTable } from '../../../src/router/policies/prefix-table.ts';

const BLOCK = 2;
const KEEP_MS = 6;

/** A minimal reference: the blocks of prompts as texts, the last credited last. */
class Plain {
  readonly #blocks = new Map<string, { engines: Set<string>; lastMs: number }>();
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  match(prompt: readonly number[], nowMs: number): Record<string, number> {
    const matched: Record<string, number> = {};
    for (const [i, name] of names(prompt).entries()) {
      const block = this.#blocks.get(name);
      if (!block || nowMs - block.lastMs > KEEP_MS) break;
      for (const engineId of block.engines) matched[engineId] = i + 1;
    }
    return matched;
  }

  credit(prompt: readonly number[], engineId: string, nowMs: number): void {
    for (const name of names(prompt).reverse()) {
      const engines = this.#blocks.get(name)?.engines ?? new Set();
      this.#blocks.delete(name);
      this.#blocks.set(name, { engines: engines.add(engineId), lastMs: nowMs });
    }
    for (const [name, { lastMs }] of this.#blocks)
      if (this.#blocks.size > this.#most || nowMs - lastMs > KEEP_MS) this.#blocks.delete(name);
  }
}

const names = (prompt: readonly number[]): string[] =>
  Array.from({ length: Math.ceil(prompt.length / BLOCK) }, (_, i) =>
    prompt.slice(0, (i + 1) * BLOCK).join(' '),
  );

it('the table knows which engines were sent a prefix, until it expires or is displaced', () => {
  const sent = fc.record({
    prompt: fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 9 }),
    engineId: fc.constantFrom('a', 'b', 'c'),
    afterMs: fc.integer({ min: 0, max: 3 }),
  });
  fc.assert(
    fc.property(
      fc.array(sent, { maxLength: 40, size: 'max' }),
      fc.integer({ min: 5, max: 20 }),
      (all, maxBlocks) => {
        const table = new PrefixTable({ blockTokens: BLOCK, maxBlocks, keepMs: KEEP_MS });
        const plain = new Plain(maxBlocks);
        let nowMs = 0;
        for (const { prompt, engineId, afterMs } of all) {
          nowMs += afterMs;
          expect(Object.fromEntries(table.match(prompt, nowMs))).toEqual(plain.match(prompt, nowMs));
          table.credit(prompt, engineId, nowMs);
          plain.credit(prompt, engineId, nowMs);
        }
      },
    ),
  );
});
