/**
 * Which engines may serve a turn, before any policy is asked: AIBrix's two placement modes, its prompt-length
 * buckets, and its combined engines as the fallback. Pure. A routing policy chooses among these candidates (plan.ts).
 */
import type { PlacementMode } from '../config/fleet-schema.ts';
import { RequestError } from '../errors.ts';
import type { EngineRole } from './engine-client.ts';

/** Prompt lengths that a roleset takes, in tokens, both bounds included. max null: no upper bound. */
export interface RolesetBounds {
  name: string;
  min: number;
  max: number | null;
}

export interface Placement {
  mode: PlacementMode;
  rolesets: readonly RolesetBounds[];
}

/** Any P with any D, for any prompt. */
export const ANYWHERE: Placement = { mode: 'pooled', rolesets: [] };

/** The part of an engine's view that determines where it may serve. */
interface Placeable {
  role: EngineRole;
  roleset?: string;
  combined?: boolean;
  ended: boolean;
}

/** The candidates of one turn. Neither list is ever empty. */
export interface Placed<T> {
  prefill: readonly T[];
  decode: readonly T[];
  /** The engine chosen from `decode` serves the turn alone. */
  alone: boolean;
}

/**
 * The engines that may prefill and decode a prompt of promptTokens tokens.
 * - Pooled: any P with any D of the bucket.
 * - Replica: only rolesets with at least one P and one D alive; partners() keeps a pair within one roleset.
 * - If there is no such pair, a combined engine takes the turn. If there is none either, engines that ended are
 *   candidates, so that the turn fails with the error that ended them.
 *
 * `alone`: the turn's mode needs one engine. Buckets are never crossed: throws RequestError if no roleset takes the
 * prompt.
 */
export function place<T extends Placeable>(
  { promptTokens, alone }: { promptTokens: number; alone: boolean },
  engines: readonly T[],
  { mode, rolesets }: Placement,
): Placed<T> {
  const admitting = admittingEngines(promptTokens, engines, rolesets);
  if (admitting.length === 0) throw new RequestError(noBucket(promptTokens, rolesets));
  const serving = admitting.filter(({ ended }) => !ended);
  if (mode === 'pooled' && !alone) {
    // The usual case, decided early: with a thousand engines the rest of this function is costly.
    const { prefill, decode } = pairOf(serving);
    if (prefill.length > 0 && decode.length > 0) return { prefill, decode, alone: false };
  }
  const combined = serving.filter((view) => view.combined);
  const soloEngines = alone ? [...serving.filter(isDecode), ...combined] : combined;
  const groups = mode === 'pooled' ? [admitting] : byRoleset(admitting);
  const pairs = groups.map((group) => pairOf(group.filter(({ ended }) => !ended)));
  const eligible = pairs.filter(({ prefill, decode }) => prefill.length > 0 && decode.length > 0);
  if (eligible.length > 0 && !(alone && soloEngines.length > 0)) {
    if (eligible.length === 1) return { ...eligible[0]!, alone: false };
    const prefill = eligible.flatMap((pair) => pair.prefill);
    return { prefill, decode: eligible.flatMap((pair) => pair.decode), alone: false };
  }
  if (soloEngines.length > 0) return { prefill: soloEngines, decode: soloEngines, alone: true };
  return noLivePair(groups);
}

/** The engines whose roleset's bounds admit a prompt of promptTokens tokens, ended ones included. */
export function admittingEngines<T extends Placeable>(
  promptTokens: number,
  engines: readonly T[],
  rolesets: Placement['rolesets'],
): readonly T[] {
  if (rolesets.length === 0) return engines;
  return engines.filter(({ roleset }) => {
    const bounds = rolesets.find(({ name }) => name === roleset);
    return !bounds || admits(bounds, promptTokens);
  });
}

export const admits = ({ min, max }: RolesetBounds, promptTokens: number): boolean =>
  promptTokens >= min && (max === null || promptTokens <= max);

/** The rolesets with their bounds, for messages. */
export const boundsInWords = (rolesets: readonly RolesetBounds[]): string =>
  rolesets.map(({ name, min, max }) => `${name} ${min} to ${max ?? 'any'}`).join(', ');

/** The D that P may hand over to: in replica mode those of its own roleset, pooled any. */
export const partners = <T extends Placeable>(
  { roleset }: T,
  decode: readonly T[],
  { mode }: Placement,
): readonly T[] => (mode === 'pooled' ? decode : decode.filter((other) => other.roleset === roleset));

/**
 * Candidates when no pair or combined engine is alive. Takes the first roleset that has both roles: its live engines,
 * or for a role without live ones, those that ended.
 */
function noLivePair<T extends Placeable>(groups: readonly (readonly T[])[]): Placed<T> {
  const liveOrAll = (views: readonly T[]): readonly T[] => {
    const serving = views.filter(({ ended }) => !ended);
    return serving.length > 0 ? serving : views;
  };
  const pairs = groups.map(pairOf);
  const pair = pairs.find(({ prefill, decode }) => prefill.length > 0 && decode.length > 0);
  if (pair) return { prefill: liveOrAll(pair.prefill), decode: liveOrAll(pair.decode), alone: false };
  const all = groups.flat();
  return { prefill: all, decode: all, alone: true };
}

const isPrefill = ({ role, combined }: Placeable): boolean => role === 'prefill' && !combined;
const isDecode = ({ role, combined }: Placeable): boolean => role === 'decode' && !combined;

const pairOf = <T extends Placeable>(views: readonly T[]) => {
  return { prefill: views.filter(isPrefill), decode: views.filter(isDecode) };
};

function byRoleset<T extends Placeable>(views: readonly T[]): T[][] {
  const groups = new Map<string | undefined, T[]>();
  for (const view of views) groups.set(view.roleset, [...(groups.get(view.roleset) ?? []), view]);
  return [...groups.values()];
}

const noBucket = (promptTokens: number, rolesets: readonly RolesetBounds[]): string =>
  `no roleset takes a prompt of ${promptTokens} tokens: there are ${boundsInWords(rolesets)}`;
