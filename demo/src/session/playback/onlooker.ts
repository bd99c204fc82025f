/** Removes settings from a recording's events that the viewer chooses. */
import type { SessionEvent } from '../types.ts';

/** Removes the playback speed and the text size. */
export function withoutOnlookers(event: SessionEvent): SessionEvent {
  if (event.kind !== 'settings') return event;
  const { speed: _pace, projector: _size, ...settings } = event.settings;
  return { ...event, settings };
}

/** Removes the lesson, if the page decides which one is shown. */
export function withoutLesson(event: SessionEvent): SessionEvent {
  if (event.kind !== 'settings') return event;
  const { lesson: _, ...settings } = event.settings;
  return { ...event, settings };
}
