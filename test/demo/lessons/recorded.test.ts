/** What the shipped recordings of the lessons show at each step: the outcome, the figures and the number of turns. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { ended, lookAt } from '../../../demo/src/lessons/conditions.ts';
import { lessonNumbered, lessons } from '../../../demo/src/lessons/index.ts';
import type { SessionEvent, TurnView } from '../../../demo/src/session/types.ts';
import { feed, fixtureState } from '../views/fixture-state.ts';

const recordings = path.join(import.meta.dirname, '../../../demo/recordings');

/** For each step, as soon as it is seen: the choice that came true, the figures, and the number of answers. */
function told(number: number): { came: number | null; figures: string | null; answers: number }[] {
  const file = readFileSync(path.join(recordings, `lesson-${number}.json`), 'utf8');
  const { events } = JSON.parse(file) as { events: SessionEvent[] };
  const state = fixtureState([]);
  let next = 0;
  let earlier: readonly TurnView[] = [];
  return lessonNumbered(number)!.tasks.map((task) => {
    const look = () => lookAt(state, Number.NEGATIVE_INFINITY, earlier);
    while (!task.happened(look())) {
      const event = events[next++];
      if (!event) throw new Error(`never seen in the recording: ${task.todo}`);
      feed(state, [event]);
    }
    const came = task.predict.cameTrue(look());
    const figures = task.figures?.(look()) ?? null;
    earlier = look().turns;
    return { came, figures, answers: ended({ turns: earlier }).length };
  });
}

it('lesson 11: KV takes two hops by the store alone and none with both; an expired hold costs nothing', () => {
  const [alone, both, after] = told(11);
  expect(alone).toMatchObject({ came: 1 });
  expect(alone!.figures).toMatch(/between P and D: 0 B\. From the store: .*By two hops: [1-9]/);
  expect(both).toMatchObject({ came: 2 });
  expect(both!.figures).toMatch(/between P and D: [1-9].*By two hops: 0 B/);
  expect(after).toMatchObject({ came: 1 });
});

it('lesson 12: a new D gets the whole conversation; dropped KV is recomputed, and migrated KV is pulled', () => {
  const [out, dropped, moved] = told(12);
  expect(out).toMatchObject({ came: 0 });
  expect(out!.figures).toMatch(/ready after .*Its first handover had \d+ blocks/);
  expect(dropped).toMatchObject({ came: 1 });
  expect(dropped!.figures).toMatch(/KV of 0 tokens was moved, of [1-9]\d* lost.* 0 tokens pulled/);
  expect(moved).toMatchObject({ came: 0 });
  expect(moved!.figures).toMatch(/KV of [1-9]\d* tokens was moved, of 0 lost/);
  expect(moved!.figures).not.toContain(' 0 tokens pulled');
});

it('a step that asks three times counts as seen once the third answer is there', () => {
  const thrice = lessons.flatMap(({ number, tasks }) =>
    told(number).flatMap(({ answers }, i) =>
      /three times/i.test(tasks[i]!.todo) ? [`${number}, step ${i + 1}: ${answers}`] : [],
    ),
  );
  expect(thrice).toHaveLength(9);
  expect(thrice.filter((step) => !step.endsWith(': 3'))).toEqual([]);
});
