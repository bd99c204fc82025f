/** What a watched fleet is made of: plain data, which crosses threads. Its sender has checked it. */
import type { AutoscalerName } from '../../config/autoscale.ts';
import type { Mode } from '../../config/modes.ts';
import type { RoutingName } from '../../config/routing.ts';
import type { EvictionName } from '../../config/store.ts';
import { LOWEST_TOKEN_ID } from '../../workload/random-conversations.ts';
import type { SimulationCostsFile } from '../costs/linear.ts';

/** Autoscalers that need no measurements. */
export const LIVE_AUTOSCALERS = [
  'aibrix-apa',
  'aibrix-kpa',
  'k8s-hpa',
] as const satisfies readonly AutoscalerName[];

/** Range of ids for prompts and answers; the end is excluded. */
export const TOKEN_IDS = [LOWEST_TOKEN_ID, 32_000] as const;

/** Conversations that arrive however many wait. Lengths in tokens; those of questions and answers are means. */
export interface LiveLoadSettings {
  /** Requests a second, on average, if conversations have `turns` turns. */
  rate: number;
  turns: number;
  question: number;
  answer: number;
  /** Length of each of the system prompts that conversations begin with. */
  system: number;
  /** Time between an answer and the next question. */
  thinkMs: number;
}

/** A store. Sizes in KV blocks. */
export interface LiveStoreSettings {
  blocks: number;
  /** Size of the folder below its memory; 0: there is none. */
  folderBlocks: number;
  eviction: EvictionName;
}

export interface LiveSettings {
  /** Engines at the start. */
  prefill: number;
  decode: number;
  /** KV blocks of each engine. */
  blocks: number;
  /** null: there is no store. */
  store: LiveStoreSettings | null;
  mode: Mode;
  routing: RoutingName;
  autoscale: AutoscalerName | null;
  /** Most engines of each role for the autoscaler. */
  mostEngines: number;
  /** Start-up time of a new engine. */
  startMs: number;
  seed: number;
  load: LiveLoadSettings;
  /** The name of a published cost model, or measured costs. */
  costs: string | SimulationCostsFile;
  /** KV bytes a token of the model that the costs belong to; null: of a model of the usual size. */
  kvBytesPerToken: number | null;
}
