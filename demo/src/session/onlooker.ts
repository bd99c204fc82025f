/** What of a recording's settings is who looks on's to choose, not of whom was recorded. */
import type { SessionEvent } from './types.ts';

/** Pace and size of text. */
export function withoutOnlookers(event: SessionEvent): SessionEvent {
  if (event.kind !== 'settings') return event;
  const { speed: _pace, projector: _size, ...settings } = event.settings;
  return { ...event, settings };
}

/** Where the page says which one is shown. */
export function withoutLesson(event: SessionEvent): SessionEvent {
  if (event.kind !== 'settings') return event;
  const { lesson: _, ...settings } = event.settings;
  return { ...event, settings };
}
