/** What a fleet that is watched is made of: plain data, which crosses threads. Whoever sends it has checked it. */
import type { AutoscalerName } from '../../config/autoscale.ts';
import type { Mode } from '../../config/modes.ts';
import type { RoutingName } from '../../config/routing.ts';
import type { EvictionName } from '../../config/store.ts';
import { LOWEST_TOKEN_ID } from '../../workload/made.ts';
import type { SimulationCostsFile } from '../costs/linear.ts';

/** Rules that need nothing measured beforehand. */
export const LIVE_AUTOSCALERS = [
  'aibrix-apa',
  'aibrix-kpa',
  'k8s-hpa',
] as const satisfies readonly AutoscalerName[];

/** Ids that prompts and answers are drawn from; the second excluded. */
export const TOKEN_IDS = [LOWEST_TOKEN_ID, 32_000] as const;

/** Conversations that come by themselves, whoever waits. Lengths in tokens; those of questions and answers are means. */
export interface LiveLoadSettings {
  /** Requests a second, on average, where conversations have that many turns. */
  rate: number;
  turns: number;
  question: number;
  answer: number;
  /** Of each of the system prompts that conversations begin with. */
  system: number;
  /** Between an answer and the next question. */
  thinkMs: number;
}

/** Beside the engines. Sizes in KV blocks. */
export interface LiveStoreSettings {
  blocks: number;
  /** Of a folder below its memory; 0: there is none. */
  folderBlocks: number;
  eviction: EvictionName;
}

export interface LiveSettings {
  /** Engines at the start. */
  prefill: number;
  decode: number;
  /** KV blocks of each engine. */
  blocks: number;
  /** null: there is none. */
  store: LiveStoreSettings | null;
  mode: Mode;
  routing: RoutingName;
  autoscale: AutoscalerName | null;
  /** Engines of each kind that an autoscaler has at most. */
  mostEngines: number;
  /** Of a new engine. */
  startMs: number;
  seed: number;
  load: LiveLoadSettings;
  /** A published model's name, or measured ones. */
  costs: string | SimulationCostsFile;
  /** Of the model that costs are of; null: of one of the usual size. */
  kvBytesPerToken: number | null;
}
