/** A request's tokens, kept as an array or as a TokenSequence, against an array; and the heap, against a sorted list. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type TokenIds, TokenSequence } from '../../src/config/token-ids.ts';
import { growingTokens } from '../../src/engine/growing-tokens.ts';
import { Heap } from '../../src/engine/heap.ts';

/** A minimal TokenSequence. */
class Sequence extends TokenSequence {
  readonly #ids: readonly number[];

  constructor(ids: readonly number[]) {
    super();
    this.#ids = ids;
  }

  get length(): number {
    return this.#ids.length;
  }

  at(index: number): number | undefined {
    return this.#ids.at(index);
  }

  slice(start?: number, end?: number): Sequence {
    return new Sequence(this.#ids.slice(start, end));
  }

  followedBy(more: TokenIds): Sequence {
    return new Sequence([...this.#ids, ...more]);
  }

  sharedWith(other: TokenIds): number {
    const at = this.#ids.findIndex((id, i) => other.at(i) !== id);
    return at < 0 ? Math.min(this.length, other.length) : at;
  }
}

const ids = (least: number) => fc.array(fc.nat(99), { minLength: least, maxLength: 6 });

it('growing tokens read like an array, whether the prompt is an array or a TokenSequence', () => {
  fc.assert(
    fc.property(
      ids(1),
      ids(0),
      ids(0),
      fc.nat(6),
      fc.nat(18),
      fc.nat(18),
      (prompt, forced, more, at, a, b) => {
        const first = Math.min(at, forced.length);
        const all = [...prompt, ...forced, ...more];
        for (const kept of [prompt, new Sequence(prompt)]) {
          const grown = growingTokens(kept, forced);
          expect([grown.length, grown.last]).toEqual([prompt.length, prompt.at(-1)]);
          if (first > 0) grown.push(forced[0]!);
          grown.pushForced(Math.max(0, first - 1));
          for (const [i, id] of [...forced.slice(first), ...more].entries()) {
            grown.push(id);
            const length = prompt.length + first + i + 1;
            expect([grown.length, grown.last]).toEqual([length, all[length - 1]]);
            expect([...grown.ids]).toEqual(all.slice(0, length));
          }
          expect([...grown.ids]).toEqual(all);
          expect(grown.ids).toBe(grown.ids);
          const [start, end] = [Math.min(a, b), Math.max(a, b)];
          expect([...grown.slice(start, end)]).toEqual(all.slice(start, end));
        }
      },
    ),
  );
});

it('a heap returns its least item first under random pushes, pops and removals from the middle', () => {
  const take = fc.record({ take: fc.nat(59) });
  // Mostly pushes, so that the heap grows deep enough for an item from elsewhere to belong above a removed one's parent.
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.nat(99) },
    { weight: 1, arbitrary: fc.constant('pop' as const) },
    { weight: 1, arbitrary: take },
  );
  const steps = fc.array(step, { maxLength: 60, size: 'max' });
  fc.assert(
    fc.property(steps, (all) => {
      const heap = new Heap<{ at: number; place: number }>(
        (a, b) => a.at < b.at,
        (item, place) => {
          item.place = place;
        },
      );
      const sorted: number[] = [];
      for (const step of all) {
        if (step === 'pop') expect(heap.pop()?.at).toBe(sorted.shift());
        else if (typeof step === 'number') {
          heap.push({ at: step, place: -1 });
          sorted.push(step);
          sorted.sort((a, b) => a - b);
        } else if (sorted.length > 0) {
          const item = heap.items[step.take % sorted.length]!;
          heap.removeAt(item.place);
          sorted.splice(sorted.indexOf(item.at), 1);
        }
        expect(heap.first?.at).toBe(sorted[0]);
        expect(heap.items.map(({ at }) => at).sort((a, b) => a - b)).toEqual(sorted);
        expect(heap.items.map(({ place }) => place)).toEqual(sorted.map((_, i) => i));
      }
      while (sorted.length > 0) expect(heap.pop()?.at).toBe(sorted.shift());
      expect([heap.pop(), heap.first]).toEqual([undefined, undefined]);
    }),
  );
});
