/** Removes settings from a recording's events that the viewer chooses. */
import type { SessionEvent } from '../types.ts';

/** Removes the playback speed, the text size and the lesson. */
export function withoutOnlookers(event: SessionEvent): SessionEvent {
  if (event.kind !== 'settings') return event;
  const { speed: _pace, projector: _size, lesson: _lesson, ...settings } = event.settings;
  return { ...event, settings };
}
