/** One request's path on one timeline, with a lane for the router, each engine and each link. */
import { useSignal } from '@preact/signals';
import type { PathPiece, TurnPath } from '../../../src/simulate/live/view.ts';
import { bytes, ms } from '../views/format.ts';
import type { Fleet } from './fleet.ts';
import { laneLabel } from './names.ts';
import { wayOf } from './router-view.tsx';
import { type Column, RowsTable } from './rows-table.tsx';

/** Minimum width of a bar, percent. */
const LEAST_WIDTH = 0.3;
/** If shown up to the first token: the end of the timeline, times the TTFT. */
const BEYOND = 1.15;

const PIECE: readonly Column<PathPiece>[] = [
  { name: 'what', cell: ({ name }) => name },
  { name: 'where', cell: ({ lane }) => laneLabel(lane) },
  { name: 'from', cell: ({ startMs }) => ms(startMs) },
  { name: 'took', cell: ({ startMs, endMs }) => ms(endMs - startMs) },
  { name: 'bytes', cell: ({ bytes: moved }) => (moved ? bytes(moved) : '') },
];

/** Groups of stages, each with a colour. */
const GROUPS = [
  ['pull', 'from D to P'],
  ['load', 'from the store'],
  ['save', 'to the store'],
  ['prefill', 'prefill'],
  ['handover', 'from P to D'],
  ['decode', 'decode'],
  ['else', 'router, queues and the rest'],
] as const;

type Group = (typeof GROUPS)[number][0];

function groupOf({ name, group }: PathPiece): Group {
  if (name === 'save') return 'save';
  return GROUPS.find(([known]) => known === group)?.[0] ?? 'else';
}

function PathKey({ path: { pieces, decision } }: { path: TurnPath }) {
  const there = new Set(pieces.map(groupOf));
  return (
    <ul class="fleet-path-key" aria-hidden="true">
      {GROUPS.filter(([group]) => there.has(group)).map(([group, words]) => (
        <li key={group}>
          <span data-group={group} />
          {words}
        </li>
      ))}
      {decision.ttftMs !== null && (
        <li>
          <span class="fleet-first-key" />
          first token
        </li>
      )}
    </ul>
  );
}

export function PathView({ fleet }: { fleet: Fleet }) {
  const path = fleet.path.value;
  /** Whether decoding is shown. It takes most of the time and makes the rest too small to see. */
  const whole = useSignal(false);
  return (
    <section class="panel fleet-path" aria-label="One request's path">
      <div class="panel-head">
        <h3>One request's path</h3>
        {path && <span class="quiet-text">{turnInWords(path)}</span>}
        {path && (
          <button
            type="button"
            aria-pressed={whole.value}
            onClick={() => {
              whole.value = !whole.value;
            }}
          >
            To the last token
          </button>
        )}
        {path && (
          <button type="button" onClick={() => fleet.letGo()}>
            Clear
          </button>
        )}
      </div>
      {path ? (
        <Lanes path={path} real={fleet.isReal.value} whole={whole.value} />
      ) : (
        <p class="quiet-text">Choose a turn from the router's decisions.</p>
      )}
      <p class="visually-hidden" aria-live="polite">
        {path && `${turnInWords(path)}. ${timesInWords(path, fleet.isReal.value)}`}
      </p>
    </section>
  );
}

const turnInWords = ({ decision }: TurnPath): string =>
  `${decision.conversationId} #${decision.turn}: ${wayOf(decision)}`;

const laneOrder = (lane: string): number => (lane === 'router' ? 0 : lane.startsWith('link ') ? 1 : 2);

function Lanes({ path, real, whole }: { path: TurnPath; real: boolean; whole: boolean }) {
  const { decision, latencyMs, pieces } = path;
  const lastMs = Math.max(1, latencyMs ?? 0, ...pieces.map((piece) => piece.endMs));
  const endMs = whole || decision.ttftMs === null ? lastMs : Math.min(lastMs, BEYOND * decision.ttftMs);
  const lanes = [...new Set(['router', ...pieces.map(({ lane }) => lane)])];
  const inOrder = lanes.toSorted(
    (a, b) => startOf(pieces, a) - startOf(pieces, b) || laneOrder(a) - laneOrder(b),
  );
  return (
    <>
      <div class="fleet-lanes" aria-hidden="true">
        {inOrder.map((lane) => (
          <div class="fleet-lane" key={lane}>
            <span class="fleet-lane-name">{laneLabel(lane)}</span>
            <div class="fleet-lane-bars">
              {pieces
                .filter((piece) => piece.lane === lane && piece.startMs < endMs)
                .map((piece, i) => (
                  <Bar key={`${piece.name} ${i}`} piece={piece} endMs={endMs} />
                ))}
              {decision.ttftMs !== null && (
                <span class="fleet-first" style={{ left: `${(100 * decision.ttftMs) / endMs}%` }} />
              )}
            </div>
          </div>
        ))}
        <div class="fleet-lane">
          <span />
          <span class="fleet-scale">
            <span>0 ms</span>
            <span>{ms(endMs)}</span>
          </span>
        </div>
      </div>
      <PathKey path={path} />
      <p class="fleet-path-times">{timesInWords(path, real)}</p>
      <RowsTable
        summary="The path as a table"
        columns={PIECE}
        rows={pieces}
        keyOf={({ name }, i) => `${name} ${i}`}
      />
    </>
  );
}

function timesInWords({ decision: { ttftMs }, latencyMs }: TurnPath, real: boolean): string {
  if (ttftMs === null) return 'Not answered yet.';
  return `First token after ${ms(ttftMs)}, last token after ${ms(latencyMs ?? ttftMs)}. All times are ${real ? 'measured' : 'modelled'}.`;
}

const startOf = (pieces: readonly PathPiece[], lane: string): number =>
  lane === 'router'
    ? -1
    : Math.min(...pieces.filter((piece) => piece.lane === lane).map(({ startMs }) => startMs));

function Bar({ piece, endMs: wholeMs }: { piece: PathPiece; endMs: number }) {
  const { name, startMs, endMs } = piece;
  const width = Math.max(LEAST_WIDTH, (100 * (Math.min(endMs, wholeMs) - startMs)) / wholeMs);
  return (
    <span
      class="fleet-bar"
      data-group={groupOf(piece)}
      title={`${name}, ${ms(endMs - startMs)}`}
      style={{ left: `${(100 * startMs) / wholeMs}%`, width: `${width}%` }}
    />
  );
}
