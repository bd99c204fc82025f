/** The timeline section of a turn, from the spans in the report. */
import { STORE_ADDRESS } from '../config/connectors.ts';
import { formatBytes, formatMs, plural } from '../measure/format.ts';
import { atRouter, laneName, onGpu, onHost, onLink } from '../measure/spans/spans.ts';
import { turnName } from '../measure/spans/turn-key.ts';
import type { TurnTimeline } from '../measure/spans/turn-timeline.ts';
import type { Section, TimelinePiece } from './document.ts';

/** The engine fields that lane names need. */
type Engines = readonly { engine_id: string; role: 'prefill' | 'decode' }[];

/** `several`: whether there are several conversations, so that a turn's number does not identify it. */
export function timelineSection(timeline: TurnTimeline, engines: Engines, several: boolean): Section {
  const { mode, ttft_ms, left_out } = timeline;
  const notes = [
    ...(timeline.spans.some(({ clock }) => clock === 'modelled')
      ? ['Pale bars with a dashed edge are modelled, not measured.']
      : []),
    ...(left_out > 0 ? [`${plural(left_out, 'shorter span')} omitted.`] : []),
  ];
  return {
    title: 'Timeline of one turn',
    intro: `${capitalized(turnName(timeline, several))} in ${mode}, ${whyChosen(timeline)}: ${formatMs(ttft_ms)} ms from the router accepting it to the first token.`,
    pieces: [
      {
        kind: 'timeline',
        title: 'Timeline',
        lanes: lanesOf(timeline, engines),
        endMs: Math.max(ttft_ms, ...timeline.spans.map(({ end_ms }) => end_ms)),
        marks: [{ atMs: ttft_ms, label: 'first token' }],
        ...(notes.length > 0 ? { note: notes.join(' ') } : {}),
      },
    ],
  };
}

function whyChosen({ pulled_tokens, spans }: TurnTimeline): string {
  const pulled = spans.some(({ group, bytes }) => group === 'pull' && bytes !== 0);
  if (pulled) return 'the one that pulled the most';
  // What a store gave counts as pulled too.
  if (pulled_tokens) return 'the one that loaded the most from the store';
  return 'the last one, because none pulled KV back';
}

const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Lanes in the order of a turn: router, P, links, D. Lanes of other engines come last, by name. */
function lanesOf({ spans }: TurnTimeline, engines: Engines): TimelinePiece['lanes'] {
  const labels = laneLabels(engines);
  const order = [...labels.keys()];
  const place = (lane: string): number => (labels.has(lane) ? order.indexOf(lane) : order.length);
  const names = [...new Set(spans.map(({ lane }) => lane))];
  return names
    .toSorted((a, b) => place(a) - place(b) || a.localeCompare(b))
    .map((lane) => ({
      name: labels.get(lane) ?? lane,
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

/** Labels by the lane's name in the report. The only engine of its role is called P or D. */
function laneLabels(engines: Engines): Map<string, string> {
  const of = (role: Engines[number]['role'], letter: string): { id: string; name: string }[] => {
    const same = engines.filter((engine) => engine.role === role);
    return same.map(({ engine_id: id }) => ({ id, name: same.length === 1 ? letter : id }));
  };
  const [prefill, decode] = [of('prefill', 'P'), of('decode', 'D')];
  const own = ({ id, name }: { id: string; name: string }): [string, string][] => [
    [laneName(onGpu(id)), `${name} gpu`],
    [laneName(onHost(id)), `${name} host`],
  ];
  const ends = [...decode, ...prefill, { id: STORE_ADDRESS.engineId, name: 'store' }];
  const links = ends.flatMap((from) =>
    ends.map((to): [string, string] => {
      return [laneName(onLink({ from: from.id, to: to.id })), `link ${from.name}→${to.name}`];
    }),
  );
  const router: [string, string] = [laneName(atRouter), 'router'];
  return new Map([router, ...prefill.flatMap(own), ...links, ...decode.flatMap(own)]);
}
