/** One request's way over all engines, on one timeline: a lane for the router, each engine and each link. */
import type { PathPiece, TurnPath } from '../../../src/simulate/live/look.ts';
import { AsTable } from '../views/as-table.tsx';
import { bytes, ms } from '../views/format.ts';
import type { Fleet } from './fleet.ts';
import { laneLabel } from './names.ts';
import { wayOf } from './router-view.tsx';

/** Narrower bars could not be seen, in percent. */
const LEAST_WIDTH = 0.3;

export function PathView({ fleet }: { fleet: Fleet }) {
  const path = fleet.path.value;
  return (
    <section class="panel fleet-path" aria-label="One request's way">
      <div class="panel-head">
        <h3>One request's way</h3>
        {path && (
          <span class="quiet-text">
            {path.decision.conversationId} #{path.decision.turn}: {wayOf(path.decision)}
          </span>
        )}
        {path && (
          <button type="button" onClick={() => fleet.letGo()}>
            Let go
          </button>
        )}
      </div>
      {path ? (
        <Lanes path={path} real={fleet.isReal.value} />
      ) : (
        <p class="quiet-text">Choose a turn among the router's decisions.</p>
      )}
    </section>
  );
}

const laneOrder = (lane: string): number => (lane === 'router' ? 0 : lane.startsWith('link ') ? 1 : 2);

function Lanes({ path: { decision, latencyMs, pieces }, real }: { path: TurnPath; real: boolean }) {
  const endMs = Math.max(1, latencyMs ?? 0, ...pieces.map((piece) => piece.endMs));
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
                .filter((piece) => piece.lane === lane)
                .map((piece, i) => (
                  <Bar key={`${piece.name} ${i}`} piece={piece} endMs={endMs} />
                ))}
              {decision.ttftMs !== null && (
                <span class="fleet-first" style={{ left: `${(100 * decision.ttftMs) / endMs}%` }} />
              )}
            </div>
          </div>
        ))}
      </div>
      <p class="fleet-path-times">
        {decision.ttftMs === null ? (
          'It is not answered yet.'
        ) : (
          <>
            First token after {ms(decision.ttftMs)}, the last after {ms(latencyMs ?? decision.ttftMs)}. All
            times are {real ? 'measured' : 'modelled'}.
          </>
        )}
      </p>
      <AsTable summary="The way as a table">
        <table>
          <thead>
            <tr>
              <th scope="col">from</th>
              <th scope="col">took</th>
              <th scope="col">where</th>
              <th scope="col">what</th>
              <th scope="col">bytes</th>
            </tr>
          </thead>
          <tbody>
            {pieces.map((piece, i) => (
              <tr key={`${piece.name} ${i}`}>
                <td>{ms(piece.startMs)}</td>
                <td>{ms(piece.endMs - piece.startMs)}</td>
                <td>{laneLabel(piece.lane)}</td>
                <th scope="row">{piece.name}</th>
                <td>{piece.bytes ? bytes(piece.bytes) : ''}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </AsTable>
    </>
  );
}

const startOf = (pieces: readonly PathPiece[], lane: string): number =>
  lane === 'router'
    ? -1
    : Math.min(...pieces.filter((piece) => piece.lane === lane).map(({ startMs }) => startMs));

function Bar({
  piece: { name, group, startMs, endMs },
  endMs: wholeMs,
}: {
  piece: PathPiece;
  endMs: number;
}) {
  const width = Math.max(LEAST_WIDTH, (100 * (endMs - startMs)) / wholeMs);
  return (
    <span
      class="fleet-bar"
      data-group={group}
      title={`${name}, ${ms(endMs - startMs)}`}
      style={{ left: `${(100 * startMs) / wholeMs}%`, width: `${width}%` }}
    />
  );
}
