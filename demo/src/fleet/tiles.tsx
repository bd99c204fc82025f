/** Engines as tiles with their state and their pool as a grid; buttons add, drain and kill engines. */
import { useRef } from 'preact/hooks';
import type { EngineRole } from '../../../src/router/engine-client.ts';
import type { LiveEngine } from '../../../src/simulate/live/view.ts';
import { Button } from '../views/button.tsx';
import { percent } from '../views/format.ts';
import { Surface } from '../views/surface.tsx';
import { drawPool, layoutPool } from './draw-pool.ts';
import type { Fleet } from './fleet.ts';
import { aloneInWords, shortName, stateInWords } from './names.ts';
import { OpenedView } from './opened-view.tsx';
import { type Column, RowsTable } from './rows-table.tsx';
import { MOST_ENGINES, REAL_MOST } from './settings.ts';
import { StoreFlights } from './store-flights.tsx';
import { StoreTile } from './store-tile.tsx';

const PREFILL = { role: 'prefill', letter: 'P', about: 'prefill' } as const;
const DECODE = { role: 'decode', letter: 'D', about: 'decode' } as const;

/** Cells drawn while an engine's pool is unknown. */
const NO_CELLS = 256;

export function Tiles({ fleet }: { fleet: Fleet }) {
  const engines = fleet.look.value?.engines ?? [];
  const hasStore = (fleet.look.value?.store ?? null) !== null;
  const tiles = useRef<HTMLDivElement>(null);
  const dead = engines.some(({ state }) => state === 'ended');
  const alone = aloneInWords(engines);
  return (
    <section class="panel fleet-engines" aria-label="The engines">
      <div class="fleet-roles" data-store={hasStore} ref={tiles}>
        <Role fleet={fleet} {...PREFILL} />
        {hasStore && <StoreTile fleet={fleet} />}
        <Role fleet={fleet} {...DECODE} />
        {hasStore && <StoreFlights fleet={fleet} tiles={tiles} />}
      </div>
      <Legend hasStore={hasStore} />
      <OpenedView fleet={fleet} />
      <div role="status">{alone && <p class="problem">{alone}</p>}</div>
      {dead && (
        <p>
          <button type="button" onClick={() => fleet.revive()}>
            Replace the dead engines
          </button>
        </p>
      )}
      <EngineTable engines={engines} />
    </section>
  );
}

function Role(props: { fleet: Fleet; role: EngineRole; letter: string; about: string }) {
  const { fleet, role, letter, about } = props;
  const { look } = fleet;
  const engines = (look.value?.engines ?? []).filter((engine) => engine.role === role);
  const busy = look.value?.scaling ?? true;
  const isReal = fleet.isReal.value;
  const most = isReal ? REAL_MOST[role] : MOST_ENGINES;
  const full = engines.filter(({ state }) => state !== 'leaving').length >= most;
  return (
    <div class="fleet-role" data-role={role}>
      <div class="fleet-role-head">
        <h3 class={role === 'prefill' ? 'is-p' : 'is-d'}>
          {letter} <span class="fleet-about">{about}</span>
        </h3>
        <Button
          off={busy || full}
          title={full ? `${isReal ? 'Real engines: at' : 'At'} most ${most} ${letter}` : undefined}
          aria-label={`+ ${letter}: start one more ${letter}`}
          onClick={() => fleet.scale(role, 1)}
        >
          + {letter}
        </Button>
        <Button
          off={busy || engines.length < 2}
          aria-label={`− ${letter}: drain one ${letter}`}
          onClick={() => fleet.scale(role, -1)}
        >
          − {letter}
        </Button>
      </div>
      <ul class="fleet-tiles">
        {engines.map((engine) => (
          <Tile key={engine.engineId} fleet={fleet} engine={engine} />
        ))}
      </ul>
    </div>
  );
}

function Tile({ fleet, engine: { engineId, role } }: { fleet: Fleet; engine: LiveEngine }) {
  const now = () => fleet.look.value?.engines.find((engine) => engine.engineId === engineId);
  const engine = now();
  if (!engine) return null;
  const name = shortName(engineId);
  const cells = engine.pool?.used.length ?? NO_CELLS;
  return (
    <li class="fleet-tile" data-state={engine.state} data-engine={engineId}>
      <p class="fleet-tile-head">
        {engine.state === 'ended' ? (
          <strong>{name}</strong>
        ) : (
          <button
            type="button"
            class="fleet-open"
            aria-label={`Blocks of ${name}`}
            aria-pressed={fleet.opened.value === engineId}
            onClick={() => fleet.open(engineId)}
          >
            {name}
          </button>
        )}
        {engine.state !== 'ended' && (
          <button type="button" class="quiet" onClick={() => fleet.kill(engineId)}>
            Kill<span class="visually-hidden"> {name}</span>
          </button>
        )}
      </p>
      <Surface
        name="fleet pools"
        heightFor={(width) => layoutPool(width, cells).height}
        watch={() => void fleet.look.value}
        draw={({ context, width, palette }) => {
          const pool = now()?.pool;
          const accent = role === 'prefill' ? palette.p : palette.d;
          if (pool) drawPool(context, layoutPool(width, pool.used.length), pool, accent, palette);
          return false;
        }}
      />
      <span class="fleet-busy" aria-hidden="true">
        <span style={{ width: percent(engine.busy) }} />
      </span>
      <p class="fleet-does">{stateInWords(engine)}</p>
    </li>
  );
}

function Legend({ hasStore }: { hasStore: boolean }) {
  return (
    <ul class="fleet-legend">
      <li data-mark="used">in use</li>
      <li data-mark="held">held for a reader</li>
      <li data-mark="cached">cached</li>
      <li data-mark="free">free</li>
      <li data-mark="busy">computing</li>
      {hasStore && <li data-mark="store">to or from the store</li>}
    </ul>
  );
}

const ENGINE: readonly Column<LiveEngine>[] = [
  { name: 'engine', cell: ({ engineId }) => shortName(engineId) },
  { name: 'state', cell: stateInWords },
  { name: 'computing', cell: ({ busy }) => percent(busy) },
  {
    name: 'pool in use or held',
    cell: ({ state, numBlocks, freeBlocks }) =>
      state === 'ended' ? 'none' : `${numBlocks - freeBlocks} of ${numBlocks} blocks`,
  },
];

const EngineTable = ({ engines }: { engines: readonly LiveEngine[] }) => (
  <RowsTable
    summary="Engines as a table"
    columns={ENGINE}
    rows={engines}
    keyOf={({ engineId }) => engineId}
  />
);
