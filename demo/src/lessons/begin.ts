/** How a lesson begins: its settings over the page's defaults, an empty conversation, nothing played by itself. */
import { defaultSettings } from '../session/settings.ts';
import type { SessionActions, SessionState, Settings } from '../session/types.ts';
import { bytes } from '../views/format.ts';
import { MODES } from '../views/modes.ts';
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
  await actions.begin(settingsOf(lesson, state.settings.peek()));
}

const NAMES: Partial<Record<keyof Settings, string>> = {
  mode: 'mode',
  prefixCaching: 'prefix caching on P',
  threshold: 'threshold',
  link: 'link',
  tokenCheck: 'token check',
  prefill: 'prefill engines',
  decode: 'decode engines',
  routing: 'routing',
  pBlocks: 'P’s blocks',
  dBlocks: 'D’s blocks',
  maxTokens: 'most tokens of an answer',
  store: 'store of',
  offloadPromptOnly: 'prompts alone are saved',
  path: 'way of KV',
  conversations: 'conversations at once',
  drain: 'what a leaving engine held',
};

/** What a lesson sets, for the reader. */
export function settingsInWords({ settings }: LessonHead): string {
  return (Object.entries(settings) as [keyof Settings, unknown][])
    .map(([key, value]) => {
      const plain = value === true ? 'on' : value === false || value === null ? 'off' : String(value);
      const shown =
        key === 'store'
          ? bytes(Number(value))
          : key === 'mode'
            ? `“${MODES[value as Settings['mode']].name}”`
            : plain;
      return `${NAMES[key] ?? key} ${shown}`;
    })
    .join(', ');
}
