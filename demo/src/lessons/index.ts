/** The eight lessons, in the order of the class. */

import type { Settings } from '../session/settings.ts';
import { whySplit } from './1-why-split.ts';
import { pagedKv } from './2-paged-kv.ts';
import { handOver } from './3-hand-over.ts';
import { whatTurnTwoRecomputes } from './4-what-turn-two-recomputes.ts';
import { pullingBack } from './5-pulling-back.ts';
import { eviction } from './6-eviction.ts';
import { whenPullingLoses } from './7-when-pulling-loses.ts';
import { wrongKv } from './8-wrong-kv.ts';
import type { Lesson } from './types.ts';

export const lessons: readonly Lesson[] = [
  whySplit,
  pagedKv,
  handOver,
  whatTurnTwoRecomputes,
  pullingBack,
  eviction,
  whenPullingLoses,
  wrongKv,
];

export const lessonNumbered = (number: number | null): Lesson | null =>
  lessons.find((lesson) => lesson.number === number) ?? null;

/** What a lesson sets of its own accord: a lesson plays nothing by itself. */
export function lessonSettings(number: number | null): Partial<Settings> {
  const lesson = lessonNumbered(number);
  return lesson ? { turns: 0, ...lesson.settings, lesson: lesson.number } : {};
}
