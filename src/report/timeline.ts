/** The timeline of a turn, from the spans that the report kept of it. */
import { formatBytes, formatMs, plural } from '../measure/format.ts';
import type { TurnTimeline } from '../measure/turn-timeline.ts';
import type { Section, TimelinePiece } from './document.ts';

export function timelineSection(timeline: TurnTimeline): Section {
  const { mode, turn, ttft_ms, left_out } = timeline;
  return {
    title: 'One turn, span by span',
    intro: `Turn ${turn} in ${mode}, the one that pulled the most: ${formatMs(ttft_ms)} ms from the router's acceptance to the first token.`,
    pieces: [
      {
        kind: 'timeline',
        title: 'What happened when',
        lanes: lanesOf(timeline),
        endMs: Math.max(ttft_ms, ...timeline.spans.map(({ end_ms }) => end_ms)),
        marks: [{ atMs: ttft_ms, label: 'first token' }],
        ...(left_out > 0 ? { note: `${plural(left_out, 'shorter span')} left out.` } : {}),
      },
    ],
  };
}

/** P above, then the links, then D, the router first: as a turn goes. */
function laneOrder(lane: string): number {
  if (lane === 'router') return 0;
  if (lane.startsWith('link')) return 2;
  return lane.startsWith('prefill') ? 1 : 3;
}

function lanesOf({ spans }: TurnTimeline): TimelinePiece['lanes'] {
  const names = [...new Set(spans.map(({ lane }) => lane))];
  return names
    .toSorted((a, b) => laneOrder(a) - laneOrder(b) || a.localeCompare(b))
    .map((lane) => ({
      name: laneLabel(lane),
      bars: spans
        .filter((span) => span.lane === lane)
        .map(({ name, group, start_ms, end_ms, clock, bytes }) => ({
          label: name,
          startMs: start_ms,
          endMs: end_ms,
          group,
          modelled: clock === 'modelled',
          ...(bytes === null ? {} : { detail: formatBytes(bytes) }),
        })),
    }));
}

/** 'link prefill-0>decode-0' as 'link P→D'. */
const laneLabel = (lane: string): string =>
  lane
    .replace(/prefill-0/g, 'P')
    .replace(/decode-0/g, 'D')
    .replace('>', '→');
