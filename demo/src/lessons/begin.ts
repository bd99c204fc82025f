/** Begins a lesson: its settings over the page's defaults, and an empty conversation that does not start to play. */
import { fromHash } from '../session/hash.ts';
import { defaultPools, defaultSettings } from '../session/settings.ts';
import type { SessionActions, SessionState, Settings } from '../session/types.ts';
import { lessonList, lessonSettings } from './list.ts';
import type { LessonHead } from './types.ts';

/** The lesson's settings over the defaults. The user keeps their model, its number types, seed and block size, and how the page is shown. */
export function settingsOf(lesson: LessonHead, now: Settings): Settings {
  const { weightDtype, kvDtype, seed, blockSize, speed, projector } = now;
  // A lesson may have set its own model, which stays when the lesson is ended.
  const ofLesson = lessonList.some(({ settings }) => settings.model === now.model);
  const model = ofLesson ? defaultSettings.model : now.model;
  const ofThis = lessonSettings(lesson.number);
  return {
    ...defaultSettings,
    ...defaultPools(ofThis.model ?? model),
    model,
    weightDtype,
    kvDtype,
    seed,
    blockSize,
    speed,
    projector,
    ...ofThis,
  };
}

export async function beginLesson(
  lesson: LessonHead,
  state: SessionState,
  actions: SessionActions,
): Promise<void> {
  // During a recording, the user's settings are those in the address.
  const now = state.replay.peek() ? fromHash(location.hash).settings : state.settings.peek();
  await actions.begin(settingsOf(lesson, now));
}
