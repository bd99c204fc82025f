/** The lessons' titles and settings. Part of the page's first load; the lessons' texts are fetched later. */
import type { Settings } from '../session/settings.ts';
import type { LessonHead } from './types.ts';

/** In the order of the class. */
export const lessonList: readonly LessonHead[] = [
  {
    number: 1,
    title: 'Why split prefill from decode: the stall',
    // Lessons that need what this model says, or how many tokens a text has for it, set it.
    settings: { model: 'recall', mode: 'monolithic' },
  },
  {
    number: 2,
    title: 'Paged KV and prefix caching',
    settings: { mode: 'unidirectional', prefixCaching: true },
  },
  { number: 3, title: 'The handover, P → D', settings: { mode: 'unidirectional' } },
  { number: 4, title: 'What turn two recomputes', settings: { mode: 'unidirectional', prefixCaching: true } },
  { number: 5, title: 'Pulling back from D', settings: { mode: 'bidirectional' } },
  {
    number: 6,
    title: 'Eviction on P',
    settings: { mode: 'bidirectional', prefixCaching: true, threshold: 0 },
  },
  {
    number: 7,
    title: 'When pulling loses: threshold and link',
    settings: { mode: 'bidirectional', threshold: 0, link: '40e3,5ms' },
  },
  {
    number: 8,
    title: 'Holds, leases, and wrong KV',
    settings: { model: 'recall', mode: 'bidirectional', threshold: 0, tokenCheck: false },
  },
  {
    number: 9,
    title: 'Routing: where the next turn goes',
    settings: { mode: 'bidirectional', threshold: 0, prefill: 2, decode: 2, routing: 'round-robin' },
  },
  {
    number: 10,
    title: 'Windows and cache groups',
    settings: {
      model: 'tiny-hybrid',
      mode: 'bidirectional',
      threshold: 0,
      pBlocks: 256,
      dBlocks: 256,
      maxTokens: 8,
    },
  },
  {
    number: 11,
    title: 'The store, and two hops',
    settings: {
      mode: 'bidirectional',
      threshold: 0,
      store: 2 ** 20,
      offloadPromptOnly: false,
      path: 'store',
      maxTokens: 40,
    },
  },
  {
    number: 12,
    title: 'Scaling out and in',
    settings: { mode: 'bidirectional', threshold: 0, conversations: 2, drain: 'drop', maxTokens: 16 },
  },
];

/** A lesson's settings. A lesson never starts playing on its own. */
export function lessonSettings(number: number | null): Partial<Settings> {
  const lesson = lessonList.find((one) => one.number === number);
  return lesson ? { turns: 0, ...lesson.settings, lesson: lesson.number } : {};
}
