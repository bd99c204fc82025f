/** The lessons with their contents. */
import { whySplit } from './1-why-split.ts';
import { pagedKv } from './2-paged-kv.ts';
import { handOver } from './3-hand-over.ts';
import { whatTurnTwoRecomputes } from './4-what-turn-two-recomputes.ts';
import { pullingBack } from './5-pulling-back.ts';
import { eviction } from './6-eviction.ts';
import { whenPullingLoses } from './7-when-pulling-loses.ts';
import { wrongKv } from './8-wrong-kv.ts';
import { routing } from './9-routing.ts';
import { windows } from './10-windows.ts';
import { storeAndHops } from './11-store.ts';
import { scaling } from './12-scaling.ts';
import { lessonList } from './list.ts';
import type { Lesson, LessonContent } from './types.ts';

const contents: readonly LessonContent[] = [
  whySplit,
  pagedKv,
  handOver,
  whatTurnTwoRecomputes,
  pullingBack,
  eviction,
  whenPullingLoses,
  wrongKv,
  routing,
  windows,
  storeAndHops,
  scaling,
];

export const lessons: readonly Lesson[] = lessonList.map((head, i) => ({ ...head, ...contents[i]! }));

export const lessonNumbered = (number: number | null): Lesson | null =>
  lessons.find((lesson) => lesson.number === number) ?? null;
