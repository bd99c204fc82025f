/** How a lesson begins: its settings over the page's defaults, an empty conversation, nothing played by itself. */
import { fromHash } from '../session/hash.ts';
import { defaultSettings } from '../session/settings.ts';
import type { SessionActions, SessionState, Settings } from '../session/types.ts';
import { lessonSettings } from './list.ts';
import type { LessonHead } from './types.ts';

/** Everything that a lesson decides; the user's model, what it is kept as, and how all is shown stay the user's. */
export function settingsOf(lesson: LessonHead, now: Settings): Settings {
  const { weightDtype, kvDtype, seed, blockSize, speed, projector } = now;
  // The lesson before may have brought its own.
  const model = now.model === lessonSettings(now.lesson).model ? defaultSettings.model : now.model;
  return {
    ...defaultSettings,
    model,
    weightDtype,
    kvDtype,
    seed,
    blockSize,
    speed,
    projector,
    ...lessonSettings(lesson.number),
  };
}

export async function beginLesson(
  lesson: LessonHead,
  state: SessionState,
  actions: SessionActions,
): Promise<void> {
  // A recording's model is not the user's.
  const now = state.replay.peek() ? fromHash(location.hash).settings : state.settings.peek();
  await actions.begin(settingsOf(lesson, now));
}
