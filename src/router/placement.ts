/**
 * Where a turn may be served, before any policy is asked: AIBrix's two modes, its prompt-length buckets, and its combined
 * engines as the fallback. Pure. Which of the candidates serves is a policy's to say (plan.ts).
 */
import type { PlacementMode } from '../config/fleet-schema.ts';
import { RequestError } from '../errors.ts';
import type { EngineRole } from './engine-client.ts';

/** Prompts that a roleset takes, in tokens, both bounds included; max null: however long. */
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

/** What of an engine's view says where it may serve. */
interface Placeable {
  role: EngineRole;
  roleset?: string;
  combined?: boolean;
  ended: boolean;
}

/** Neither list is ever empty. */
export interface Placed<T> {
  prefill: readonly T[];
  decode: readonly T[];
  /** Whichever of `decode` is chosen serves the turn alone. */
  alone: boolean;
}

/**
 * Who may prefill and who may decode a prompt of so many tokens. Pooled, any P goes with any D of the bucket; replica, only
 * rolesets with one of each alive are eligible, and partners() keeps the pair in one. Where there is no such pair an
 * engine that does both takes the turn; where there is none either, those that ended are named, so that the turn fails
 * with what ended them. `alone`: the turn's mode wants one engine. Never crosses buckets: throws RequestError when no
 * roleset takes the prompt.
 */
export function place<T extends Placeable>(
  { promptTokens, alone }: { promptTokens: number; alone: boolean },
  engines: readonly T[],
  { mode, rolesets }: Placement,
): Placed<T> {
  const taking = whoTakes(promptTokens, engines, rolesets);
  if (taking.length === 0) throw new RequestError(noBucket(promptTokens, rolesets));
  const serving = taking.filter(({ ended }) => !ended);
  if (mode === 'pooled' && !alone) {
    // As nearly always: of a thousand engines nothing more is to be looked at.
    const { prefill, decode } = pairOf(serving);
    if (prefill.length > 0 && decode.length > 0) return { prefill, decode, alone: false };
  }
  const combined = serving.filter((view) => view.combined);
  const wholeTurns = alone ? [...serving.filter(isDecode), ...combined] : combined;
  const groups = mode === 'pooled' ? [taking] : byRoleset(taking);
  const pairs = groups.map((group) => pairOf(group.filter(({ ended }) => !ended)));
  const eligible = pairs.filter(({ prefill, decode }) => prefill.length > 0 && decode.length > 0);
  if (eligible.length > 0 && !(alone && wholeTurns.length > 0)) {
    if (eligible.length === 1) return { ...eligible[0]!, alone: false };
    const prefill = eligible.flatMap((pair) => pair.prefill);
    return { prefill, decode: eligible.flatMap((pair) => pair.decode), alone: false };
  }
  if (wholeTurns.length > 0) return { prefill: wholeTurns, decode: wholeTurns, alone: true };
  return nobody(groups);
}

/** Those whose roleset's bounds take a prompt of so many tokens, ended ones included. */
export function whoTakes<T extends Placeable>(
  promptTokens: number,
  engines: readonly T[],
  rolesets: Placement['rolesets'],
): readonly T[] {
  if (rolesets.length === 0) return engines;
  return engines.filter(({ roleset }) => {
    const bounds = rolesets.find(({ name }) => name === roleset);
    return !bounds || (promptTokens >= bounds.min && (bounds.max === null || promptTokens <= bounds.max));
  });
}

/** The D that a replica's P may hand over to; pooled, any. */
export const partners = <T extends Placeable>(
  { roleset }: T,
  decode: readonly T[],
  { mode }: Placement,
): readonly T[] => (mode === 'pooled' ? decode : decode.filter((other) => other.roleset === roleset));

/** Of the first roleset that has both, whoever lives; of a role that has nobody left, those that ended. */
function nobody<T extends Placeable>(groups: readonly (readonly T[])[]): Placed<T> {
  const left = (views: readonly T[]): readonly T[] => {
    const serving = views.filter(({ ended }) => !ended);
    return serving.length > 0 ? serving : views;
  };
  const pairs = groups.map(pairOf);
  const pair = pairs.find(({ prefill, decode }) => prefill.length > 0 && decode.length > 0);
  if (pair) return { prefill: left(pair.prefill), decode: left(pair.decode), alone: false };
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

function noBucket(promptTokens: number, rolesets: readonly RolesetBounds[]): string {
  const known = rolesets.map(({ name, min, max }) => `${name} ${min} to ${max ?? 'any'}`);
  return `no roleset takes a prompt of ${promptTokens} tokens: there are ${known.join(', ')}`;
}
