/** The page's names for engines, states and events. */
import type { LiveEngine, LiveEvent } from '../../../src/simulate/live/view.ts';

/** 'prefill-0' becomes 'P0'. 'decode-1.2', the second engine in that place, becomes 'D1.2'. */
export function shortName(engineId: string): string {
  const [, role, rest] = /^(prefill|decode)-(.+)$/.exec(engineId) ?? [];
  return role === undefined ? engineId : `${role === 'prefill' ? 'P' : 'D'}${rest}`;
}

/** Shortens all engine ids in a text. */
export const withShortNames = (text: string): string =>
  text.replace(/\b(?:prefill|decode)-\d+(?:\.\d+)?\b/g, shortName);

/** 'router', 'P0', 'D1 to P0'. */
export function laneLabel(lane: string): string {
  const [, from, to] = /^link (.+)>(.+)$/.exec(lane) ?? [];
  return from === undefined
    ? shortName(lane.replace(/ host$/, ''))
    : `${shortName(from)} to ${shortName(to!)}`;
}

export function stateInWords({ state, why, running, waiting, loading }: LiveEngine): string {
  if (state === 'ended') return withShortNames(why ?? 'ended');
  const does = [`${running} running`];
  if (waiting > 0) does.push(`${waiting} waiting`);
  if (loading > 0) does.push(`${loading} loading KV`);
  return `${state === 'leaving' ? 'leaving: ' : ''}${does.join(', ')}`;
}

/** Which role serves after a failover, if the other role has no engine left; null: both roles have engines. */
export function aloneInWords(engines: readonly Pick<LiveEngine, 'role' | 'state'>[]): string | null {
  const left = (role: LiveEngine['role']): boolean =>
    engines.some((engine) => engine.role === role && engine.state === 'serving');
  const [p, d] = [left('prefill'), left('decode')];
  if (engines.length === 0 || (p && d)) return null;
  if (!p && !d) return 'No engine is left, so every request fails.';
  const [gone, serves] = p ? ['D', 'P'] : ['P', 'D'];
  return `No ${gone} is left, so ${serves} serves alone: it reads and writes, and nothing is handed over.`;
}

export function eventInWords({ event, engineId, detail }: LiveEvent): string {
  const who = engineId ? shortName(engineId) : '';
  switch (event) {
    case 'routing':
      return `routing: ${detail}`;
    case 'load':
      return detail;
    case 'autoscaler':
      return `autoscaler: ${detail}`;
    case 'decided':
    case 'failed':
      return withShortNames(detail);
    default:
      return withShortNames([who, event, detail && `(${detail})`].filter(Boolean).join(' '));
  }
}

export const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;
