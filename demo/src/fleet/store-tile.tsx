/** The store between P and D: its memory, the tiers below it, and blocks saved and loaded. */
import type { LiveStore, LiveTier } from '../../../src/simulate/live/view.ts';
import { plural } from '../views/format.ts';
import { Surface } from '../views/surface.tsx';
import { drawPool, layoutPool } from './draw-pool.ts';
import type { Fleet } from './fleet.ts';

const count = (value: number): string => value.toLocaleString('en-US');

export function StoreTile({ fleet }: { fleet: Fleet }) {
  const now = () => fleet.look.value?.store ?? null;
  const store = now();
  if (!store) return null;
  const { slots, blocks, tiers } = store;
  return (
    <section class="fleet-role fleet-store" data-role="store" aria-label="The store">
      <div class="fleet-role-head">
        <h3 class="is-store">
          Store <span class="fleet-about">for all engines</span>
        </h3>
      </div>
      <div class="fleet-tile" data-engine="store">
        <p class="fleet-tier">
          <strong>Memory</strong> {count(blocks)} of {count(slots)} blocks
        </p>
        <Surface
          name="fleet store"
          heightFor={(width) => layoutPool(width, store.pool.used.length).height}
          watch={() => void fleet.look.value}
          draw={({ context, width, palette }) => {
            const pool = now()?.pool;
            if (pool) drawPool(context, layoutPool(width, pool.used.length), pool, palette.store, palette);
            return false;
          }}
        />
        {tiers.map((tier) => (
          <Tier key={tier.medium} tier={tier} />
        ))}
        <p class="fleet-does">{askedInWords(store)}</p>
        <Moved store={store} />
      </div>
    </section>
  );
}

function Tier({ tier: { medium, blocks, room, read, written, leftOut } }: { tier: LiveTier }) {
  const full = room === null ? 0 : Math.min(100, Math.round((100 * blocks) / room));
  return (
    <>
      <p class="fleet-tier">
        <strong>{medium === 'folder' ? 'Folder' : 'Server'}</strong> {count(blocks)}
        {room === null ? ' blocks' : ` of ${count(room)} blocks`}
      </p>
      <span class="fleet-fill" aria-hidden="true">
        <span style={{ width: `${full}%` }} />
      </span>
      <p class="fleet-does">
        {count(written)} written, {count(read)} read back
        {leftOut > 0 && `, ${count(leftOut)} skipped: it could not keep up`}
      </p>
    </>
  );
}

function askedInWords({ lookups, hits, evicted }: LiveStore): string {
  if (lookups === 0) return 'No lookups yet.';
  const share = Math.round((100 * hits) / lookups);
  const gone = evicted > 0 ? `; ${count(evicted)} evicted` : '';
  return `Found ${share}% of ${plural(lookups, 'requested block')}${gone}.`;
}

const ROLES = [
  ['prefill', 'P'],
  ['decode', 'D'],
] as const;

/** Blocks saved and loaded since the start. */
function Moved({ store: { moved } }: { store: LiveStore }) {
  return (
    <table class="fleet-moved">
      <caption class="visually-hidden">Blocks saved to the store and loaded from it</caption>
      <thead>
        <tr>
          <td />
          <th scope="col">saved</th>
          <th scope="col">loaded</th>
        </tr>
      </thead>
      <tbody>
        {ROLES.map(([role, letter]) => (
          <tr key={role}>
            <th scope="row" class={`is-${letter.toLowerCase()}`}>
              {letter}
            </th>
            <td>{count(moved[role].saved)}</td>
            <td>{count(moved[role].loaded)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
