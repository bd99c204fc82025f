/** What `kvferry simulate` prints: the arms side by side, engine load, and whether each fleet keeps up. */
import type { RunConfig } from '../../config/run.ts';
import { FAULTS, type FaultKind } from '../../faults/schedule.ts';
import { formatCount, formatMb, formatMs, formatSeconds, plural } from '../../measure/format.ts';
import type { SimulatedArm, SimulationReport } from '../../measure/schemas/simulation-report.ts';
import { right } from '../../report/document.ts';
import { modelledLinks } from '../../report/throttled.ts';
import { isStreamed, STREAMED } from '../../report/verdict.ts';
import { sum } from '../../sum.ts';
import type { Output } from '../deps.ts';
import { goodLegend } from '../output/format.ts';
import { packed, printer, type TableStyle } from '../output/table.ts';
import { armTable } from './arm-table.ts';
import { engineTable } from './engine-table.ts';
import { ALIKE, seedsAreAlike, seedTable } from './seeds.ts';

export function printSimulation(report: SimulationReport, out: Output, color: boolean): void {
  const { print, say, c, style } = printer(out, color);
  const { workload, arms } = report;
  print(['']);
  say(`kvferry ${report.kvferry} simulate: ${report.fleet}, KV of ${report.model}`, c.bold);
  say(`${timesOf(report)}. No model ran.`, c.yellow);
  for (const line of movingLines(report)) say(line, c.yellow);
  if (report.store_times?.assumed)
    say('The cost model has no store times: loads and saves are assumed to take as long as READs.', c.yellow);
  for (const tier of report.store_times?.tiers ?? []) say(tierTimesLine(tier), c.yellow);
  say(`${workloadOf(report)}; ${workload.asked}`);
  print(['']);
  print(speedTable(arms, style));
  const slo = arms.find(({ goodput }) => goodput)?.goodput;
  if (slo) say(goodLegend(slo), c.dim);
  print(['']);
  print(workTable(arms, style));
  if (arms.some(({ seeds }) => seeds > 1)) {
    print(['']);
    if (seedsAreAlike(arms)) say(ALIKE, c.yellow);
    else print(seedTable(arms, style));
  }
  for (const arm of arms) {
    print(['']);
    if (arms.length > 1) say(arm.label, c.bold);
    print(engineTable(arm, report.seed, style));
    if (arm.scaling) {
      print(['']);
      for (const line of scalingLines(arm, arm.scaling, report.starts)) say(line);
    }
  }
  print(['']);
  for (const arm of arms) {
    const tone = {
      good: c.green,
      plain: undefined,
      bad: arm.verdict.word === 'BACKLOGGED' ? c.yellow : c.red,
    };
    say(
      `${arms.length > 1 ? `${arm.label}: ` : ''}${verdictLine(arm, workload)}`,
      tone[verdictTone(arm, workload)],
    );
    if (arm.store) say(storeLine(arm.store, arm.seeds));
    if (arm.faults) say(faultLine(arm.faults, (workload.faults ?? 0) * arm.seeds));
    for (const { message, count } of arm.errors) say(`${plural(count, 'request')} failed: ${message}`, c.red);
    const unasked = unaskedTurns(arm, workload);
    if (unasked > 0)
      say(
        `${plural(unasked, 'turn')} not sent, because an earlier turn of the same conversation failed.`,
        c.red,
      );
  }
}

export const workloadOf = ({
  workload: { conversations, source, scale, turns },
}: Pick<SimulationReport, 'workload'>): string =>
  `${plural(conversations, 'conversation')} of ${source}${scale === '1' ? '' : `, lengths ${scale}`}, ${plural(turns, 'turn')}`;

/** The cost model's name and origin. */
export const timesOf = ({ costs: { source, name, about } }: Pick<SimulationReport, 'costs'>): string =>
  `Cost model (${source}): ${name}${about ? `, ${about}` : ''}`;

/** What of the settings the report says besides its cost model, because KV arrives later or earlier by it. */
export function movingOf(config: RunConfig): Pick<SimulationReport, 'links' | 'handover'> {
  const links = modelledLinks({ link: config.link, config });
  return { ...(links !== null && { links }), ...(isStreamed({ config }) && { handover: 'streamed' }) };
}

export const movingLines = ({ links, handover }: ReturnType<typeof movingOf>): string[] => [
  ...(links === undefined
    ? []
    : [`Modelled links: ${links}. A READ takes what its link or the cost model says, whichever is longer.`]),
  ...(handover === undefined ? [] : [STREAMED]),
];

type Scaling = NonNullable<SimulatedArm['scaling']>;

/** Why the autoscaler changed nothing, if so. Replacing dead engines is not its decision. */
export function stayedSentence({ events, stayed }: Pick<Scaling, 'events' | 'stayed'>): string[] {
  if (stayed === null || events.some(({ event }) => event === 'decided')) return [];
  return [`${events.length === 0 ? 'Nothing changed' : 'The autoscaler changed nothing'}: ${stayed}.`];
}

/** Further events are only in the JSON report. */
const MOST_EVENTS = 12;

function scalingLines(
  { seeds }: SimulatedArm,
  { events, ...scaling }: Scaling,
  starts: SimulationReport['starts'],
): string[] {
  const { decisions, joined, left: gone, mean_engines, lost_tokens, recomputed_tokens } = scaling;
  const died = `${scaling.died} died${scaling.died > 0 ? ` (${scaling.replaced} replaced)` : ''}`;
  const more = events.length - MOST_EVENTS;
  return [
    ...events
      .slice(0, MOST_EVENTS)
      .map(({ at_ms, event, engine_id, detail }) =>
        [formatSeconds(at_ms), event, engine_id, detail].filter(Boolean).join(' '),
      ),
    ...(more > 0 ? [`${plural(more, 'more event')}: see --json`] : []),
    ...stayedSentence({ events, ...scaling }),
    `${seeds > 1 ? `Over ${seeds} seeds: ` : ''}${decisions > 0 ? `${plural(decisions, 'decision')}, ` : ''}${joined} joined, ${gone} left, ${died}; ${meanEngines(mean_engines)} on average; start-up takes ${formatSeconds(starts.ms)}${starts.assumed ? " (assumed: BLIS's default)" : ''}.`,
    `KV held for next turns: ${formatCount(scaling.migrated_tokens)} tokens taken over, ${formatCount(lost_tokens)} lost, ${formatCount(recomputed_tokens)} of them recomputed.`,
  ];
}

const meanEngines = ({ prefill, decode, both }: Scaling['mean_engines']): string =>
  both > 0
    ? `${prefill.toFixed(2)} P, ${decode.toFixed(2)} D and ${both.toFixed(2)} that do both`
    : `${prefill.toFixed(2)} P and ${decode.toFixed(2)} D`;

type AskedBy = Pick<SimulationReport['workload'], 'closed_loop'>;

/** Clients that wait for each answer cannot build up a backlog, so keeping up with them is no achievement. */
export const verdictTone = (
  { stopped, verdict, failed_requests }: SimulatedArm,
  { closed_loop }: AskedBy,
): 'good' | 'plain' | 'bad' => {
  if (stopped || verdict.word !== 'STABLE') return 'bad';
  return closed_loop || failed_requests > 0 ? 'plain' : 'good';
};

export function verdictLine(
  { verdict, simulated_ms, requests, engine_hours, stopped, by_seed }: SimulatedArm,
  { closed_loop }: AskedBy,
): string {
  if (stopped)
    return `OVERLOADED: stopped after ${formatSeconds(stopped.at_ms)} of simulated time, with ${plural(stopped.open, 'request')} in flight: requests arrive faster than they are served. Lower the load (--arrival-rate, --speed-up) or add engines.`;
  const why = {
    STABLE: 'the number of requests in flight does not grow',
    BACKLOGGED: 'requests arrive faster than they are served',
    OVERLOADED: 'requests arrive far faster than they are served',
  }[verdict.word];
  const so = by_seed.filter(({ verdict: word }) => word === verdict.word).length;
  const which = so < by_seed.length ? ` (${so} of ${by_seed.length} seeds)` : '';
  const judged = closed_loop
    ? 'Clients wait for their answers, so no backlog can build up.'
    : `${verdict.word}: ${why}${which}.`;
  return `${judged} ${plural(requests, 'request')} in ${formatSeconds(simulated_ms)} of simulated time, ${engine_hours.toFixed(4)} engine-hours.`;
}

/** Turns not sent because an earlier one failed. Unknown for clients that wait for their answers. */
export const unaskedTurns = (
  { requests, failed_requests: failed, seeds, stopped }: SimulatedArm,
  { turns, closed_loop }: Pick<SimulationReport['workload'], 'turns' | 'closed_loop'>,
): number => (failed > 0 && !stopped && !closed_loop ? Math.max(0, turns * seeds - requests - failed) : 0);

/** `planned`: faults planned. Some find no target, or their moment does not come. */
function faultLine(faults: NonNullable<SimulatedArm['faults']>, planned: number): string {
  const times = Object.entries(faults).map(([kind, n]) => `${FAULTS[kind as FaultKind]} ${n}`);
  const total = sum(Object.values(faults));
  const rest = total < planned ? '; the others found no target, or their moment did not come' : '';
  return `${total} of ${plural(planned, 'fault')} happened${total === 0 ? '' : `: ${times.join(', ')}`}${rest}.`;
}

/** `seeds`: number of seeds. The final contents are those of the first seed; other figures are totals of all seeds. */
function storeLine(
  { slots, blocks, block_bytes, lookups, hits, ...store }: NonNullable<SimulatedArm['store']>,
  seeds: number,
): string {
  const found = lookups > 0 ? `${Math.round((100 * hits) / lookups)}% of ${formatCount(lookups)}` : 'none';
  const there = `${formatCount(blocks)} of ${formatCount(slots)} blocks at the end${seeds > 1 ? ' of the first seed' : ''} (${megabytes(blocks * block_bytes)})`;
  const all = seeds > 1 ? `; in all ${seeds}: ` : ', ';
  return `Store: ${there}${all}${formatCount(store.evicted)} evicted; of the blocks looked up, found ${found}${byTier(store.tiers)}; ${formatCount(store.loaded_tokens)} tokens loaded; ${megabytes(store.two_hop_bytes)} by two hops.`;
}

function byTier(tiers: NonNullable<SimulatedArm['store']>['tiers']): string {
  if (tiers.length === 1) return '';
  const found = tiers.map(
    ({ tier, hits }) => `${formatCount(hits)} in ${tier === 'memory' ? '' : 'its '}${tier}`,
  );
  return ` (${found.join(', ')})`;
}

type TierTimes = NonNullable<SimulationReport['store_times']>['tiers'][number];

/** How long reading and writing a block takes in a tier. */
export function tierTimesLine({ tier, read, write }: TierTimes): string {
  const take = ({ fixed_ms, ms_per_byte, source }: TierTimes['read']): string => {
    const gigabytes = ms_per_byte === 0 ? '' : ` and ${Number((1e-6 / ms_per_byte).toPrecision(3))} GB/s`;
    return `${Number(fixed_ms.toPrecision(3))} ms${gigabytes} (${source})`;
  };
  return `Store ${tier}: a read takes ${take(read)}, a write ${take(write)}.`;
}

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;

/** '-' if no time passed (costs zero). */
export const rateIn = ({ simulated_ms }: Pick<SimulatedArm, 'simulated_ms'>, perSecond: number): string =>
  simulated_ms > 0 ? perSecond.toFixed(2) : '-';

function speedTable(arms: readonly SimulatedArm[], style: TableStyle): string[] {
  const good = arms.some(({ goodput }) => goodput);
  const columns = [
    ...packed('TTFT, ms', 'mean', 'p50', 'p90', 'p99'),
    ...packed('TPOT, ms', 'p50', 'p90'),
    ...right('req/s', ...(good ? ['good/s', 'good'] : [])),
  ];
  const cells = ({ ttft_ms: ttft, tpot_ms: tpot, goodput, ...arm }: SimulatedArm): string[] => [
    ...[ttft?.mean, ttft?.p50, ttft?.p90, ttft?.p99, tpot?.p50, tpot?.p90].map((ms) => formatMs(ms ?? null)),
    rateIn(arm, arm.requests_per_second),
    ...(goodput ? [rateIn(arm, goodput.requests_per_second), `${Math.round(100 * goodput.share)}%`] : []),
  ];
  return armTable(columns, arms, cells, style);
}

function workTable(arms: readonly SimulatedArm[], style: TableStyle): string[] {
  const stores = arms.some(({ store }) => store);
  const columns = [
    ...packed('prompt tokens', 'hit', 'pulled', 'computed'),
    ...packed('MB', 'P→D', 'D→P', ...(stores ? ['store→', '→store'] : [])),
    // A table with a store has no room for these; they are in the JSON report.
    ...(stores ? [] : right('READs', 'preempted')),
  ];
  const cells = (arm: SimulatedArm): string[] => [
    formatCount(arm.local_hit_tokens),
    formatCount(arm.pulled_tokens),
    formatCount(arm.computed_tokens),
    ...[arm.bytes_p_to_d, arm.bytes_d_to_p].map(formatMb),
    ...(stores
      ? [(arm.store?.bytes_to_p ?? 0) + (arm.store?.bytes_to_d ?? 0), arm.store?.bytes_saved ?? 0].map(
          formatMb,
        )
      : [formatCount(sum(Object.values(arm.transfers))), formatCount(arm.preemptions)]),
  ];
  return armTable(columns, arms, cells, style);
}
