/**
 * The boundary between the main thread and an engine's thread, whole: calls go over comlink, events come back over a port
 * of their own, and KV travels between engines by a third way (src/transport), never over this one.
 */

import type { Arithmetic } from '../config/arithmetic.ts';
import type { KvLayout } from '../config/cluster-schema.ts';
import type { EngineCoreConfig } from '../config/engine.ts';
import type { CacheLookup } from '../engine/inspect/cache-lookup.ts';
import type { RefusedRequest } from '../engine/kv-connector.ts';
import type { EngineRequest } from '../engine/types.ts';
import type { AdapterReport } from '../gpu/adapter-report.ts';
import type { MeasuredKernels, TimingMode } from '../measure/profile.ts';
import type { GemmChoice } from '../model/gemm-forms.ts';
import type { Checkpoint } from '../model/hf-weights.ts';
import type { KernelSet } from '../model/pass-kernels.ts';
import type { HandCopy, HandCopyPlan } from '../transport/by-hand.ts';
import type { FaultKind } from '../transport/faults.ts';
import type { LinkSpec } from '../transport/link.ts';
import type { BlockPair, EngineIdentity, RemoteAddress, TransferResult } from '../transport/types.ts';
import type { EngineBlocks, EngineStats } from './engine-report.ts';

export interface EngineStart {
  core: EngineCoreConfig;
  model: { name: string; weightSeed: number; weightDtype: 'f16' | 'f32' };
  /** The model's files as whoever starts the engine found and checked them; null: a preset has none. */
  checkpoint: Checkpoint | null;
  /** Where engines that start together make their weights, once for all; null: this one makes its own. */
  sharedWeights: SharedArrayBuffer | null;
  layout: KvLayout;
  /** Whether its driver may compute with threads of its own, where engines differ in that; null: they do not. */
  driverThreads: boolean | null;
  /** Those that are made before it serves. */
  kernels: KernelSet;
  /** Of the pipelines: engines that start together take one each, and find what the other compiled in a driver's cache. */
  compileOrder: 'forwards' | 'backwards';
  link: LinkSpec | null;
  checksum: boolean;
  /** After which a peer that says nothing is asked anew. */
  silenceMs: number;
  /** Forms of the matrix kernel; null: those that the adapter takes unmeasured. */
  gemm: GemmChoice | null;
  /** What matrix products are computed in. */
  arithmetic: Arithmetic;
  keepLogits: boolean;
  poison: boolean;
  /** 'short-window': its windows are one token shorter than the model's. */
  fault: FaultKind | 'short-window' | null;
}

export interface EngineStarted {
  adapter: AdapterReport;
  /** Bytes by purpose: all on its device, and `shared` with its reader once the two have met. */
  memory: Record<string, number>;
  /** Of a block in the pool, whichever KV cache group has it. */
  blockBytes: number;
  /** What others must agree on to exchange blocks with it. */
  identity: EngineIdentity;
  parameters: number;
  /** Milliseconds, side by side. */
  loadMs: number;
  compileMs: number;
  pipelines: number;
  /** Whether its driver computes with threads of its own. */
  driverThreads: boolean;
}

/** What serving takes. Every call may reject with a KvferryError. */
export interface ServingApi {
  start(start: EngineStart, events: MessagePort): Promise<EngineStarted>;
  /** `link`: to this peer, in place of the engine's; null: the engine's. */
  addPeer(peer: RemoteAddress, port: MessagePort, link: LinkSpec | null): Promise<void>;
  peerDied(engineId: string): Promise<void>;
  /** sentMs: when it was sent, on the shared clock. */
  addRequest(request: EngineRequest, sentMs: number): Promise<void>;
  abortRequest(requestId: string): Promise<void>;
  /** Ends a request whose text holds a stop string, as a stop token would; its end comes as an output. */
  stopRequest(requestId: string): Promise<void>;
  /** For a request that was refused before it came here: a holder that it names is told to free. */
  refuseRequest(request: RefusedRequest): Promise<void>;
  /** Ends one hold, or all; unknown ids are ignored. */
  releaseHolds(requestIds: readonly string[] | 'all'): Promise<void>;
  /** vLLM's rule: false, and nothing done, unless only the null block is in use. */
  resetPrefixCache(): Promise<boolean>;
  /** Resolves when nothing runs, waits, is held or under way. */
  drain(): Promise<void>;
  /** Drains, then builds the policy anew around the same device, weights and peers. */
  reconfigure(core: EngineCoreConfig, link: LinkSpec | null): Promise<void>;
  /** Ends the loop, the transport and the device; the thread ends after the answer. */
  shutdown(): Promise<void>;
}

/** What shows an engine as it is, and changes nothing. */
export interface InspectionApi {
  stats(): Promise<EngineStats>;
  /** What the engine has of a sequence: schedules nothing and runs nothing. */
  lookup(tokenIds: readonly number[], cacheSalt: string | null): Promise<CacheLookup>;
  /** Which block has what, and how full the slab to this engine's readers is. */
  blocks(): Promise<EngineBlocks>;
  /** Copies of blocks as they are on the device, for comparing both ends of a transfer. */
  readBlocks(blockIds: readonly number[]): Promise<Uint8Array[]>;
  checkIntegrity(): Promise<void>;
  /** From now on, or no longer, sends 'load' events. */
  reportLoad(wanted: boolean): Promise<void>;
  /** From now on, or no longer, sends 'cache' events. */
  reportCacheEvents(wanted: boolean): Promise<void>;
}

/** Milliseconds to add from now on, or for which to stand still. */
export type ClockChange = { jumpMs: number } | { stallMs: number };

/** What experiments do to an engine: measurements want it idle. */
export interface LabApi {
  /** What is cached of the sequence beyond its first keepTokens is found no more. */
  forgetPrefix(tokenIds: readonly number[], cacheSalt: string | null, keepTokens: number): Promise<void>;
  /** Lets the holds of a direction run out now, as their TTL would; returns how many that ended. */
  expireHolds(direction: 'prefill' | 'decode'): Promise<number>;
  /** Serves any block to any reader, until reconfigure(). */
  serveAnyBlock(): Promise<void>;
  /** A whole transfer, into blocks that nobody uses. */
  measureRead(remote: RemoteAddress, pairs: readonly BlockPair[]): Promise<TransferResult>;
  /** This end's half of a transfer, into or out of the slab; one entry a copy. */
  copyByHand(plan: HandCopyPlan): Promise<HandCopy[]>;
  /** Times submits or kernels by the device's clock from the next step on; null stops. False: it has no such clock. */
  setTiming(mode: TimingMode | null): Promise<boolean>;
  /** Since the last time, or since setTiming; with the ceilings, measured now. */
  takeKernelTimes(): Promise<MeasuredKernels>;
  /** Moves the engine's own clock. RequestError where it has none that can be moved. */
  moveClock(change: ClockChange): Promise<void>;
  /** As a driver's reset would: the device is gone, and with it every request. */
  loseDevice(): Promise<void>;
  /** The device says that it has no memory left for what was asked of it. */
  exhaustDevice(): Promise<void>;
}

/** What an engine's thread offers. */
export interface EngineApi {
  serving: ServingApi;
  inspection: InspectionApi;
  lab: LabApi;
}
