/** Checks Deadlines against a linear search. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Deadlines } from '../../src/connector/nixl/deadlines.ts';

interface Item {
  id: number;
  dueMs: number | null;
}

const command = fc.oneof(
  fc.record({ kind: fc.constant('add' as const), ms: fc.nat(20) }),
  fc.record({ kind: fc.constant('move' as const), which: fc.nat(9), ms: fc.nat(20) }),
  fc.record({ kind: fc.constant('end' as const), which: fc.nat(9) }),
  fc.record({ kind: fc.constant('remove' as const), which: fc.nat(9) }),
  fc.record({ kind: fc.constant('take' as const), ms: fc.nat(20) }),
);

describe('Deadlines', () => {
  it('agrees with a linear search while deadlines are added, moved and removed', () => {
    fc.assert(
      fc.property(fc.array(command, { maxLength: 60, size: 'max' }), (commands) => {
        const items: Item[] = [];
        const deadlines = new Deadlines<Item>(({ dueMs }) => dueMs);
        for (const step of commands) {
          const item = 'which' in step ? items[step.which] : undefined;
          if (step.kind === 'add') {
            items.push({ id: items.length, dueMs: step.ms });
            deadlines.add(items.at(-1)!);
          } else if (step.kind === 'move' && item) {
            // Only a deadline that became earlier, or is new, must be reported.
            const told = item.dueMs === null || step.ms < item.dueMs;
            item.dueMs = step.ms;
            if (told) deadlines.add(item);
          } else if (step.kind === 'end' && item) item.dueMs = null;
          else if (step.kind === 'remove' && item) {
            deadlines.remove(item);
            item.dueMs = null;
          }
          if (step.kind === 'take') {
            const due = items.filter(({ dueMs }) => dueMs !== null && dueMs <= step.ms);
            expect(
              deadlines
                .take(step.ms)
                .map(({ id }) => id)
                .sort((a, b) => a - b),
            ).toEqual(due.map(({ id }) => id));
            for (const each of due) each.dueMs = null;
          }
          const left = items.flatMap(({ dueMs }) => dueMs ?? []);
          expect(deadlines.nextMs()).toBe(left.length > 0 ? Math.min(...left) : null);
        }
      }),
    );
  });

  it('keeps no removed item, even behind an earlier one that stays', () => {
    const asked: string[] = [];
    const dueMs: Record<string, number> = { stays: 10, removed: 20 };
    const deadlines = new Deadlines<string>((item) => {
      asked.push(item);
      return dueMs[item]!;
    });
    deadlines.add('stays');
    deadlines.add('removed');
    deadlines.remove('removed');
    asked.length = 0;

    expect(deadlines.take(30)).toEqual(['stays']);
    expect(asked).toEqual(['stays']);
  });
});
