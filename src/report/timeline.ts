/** The timeline of a turn, from the spans that the report kept of it. */
import type { Report } from '../measure/report.ts';
import type { Section } from './document.ts';

export function runTimeline(_report: Report): Section[] {
  return [];
}
