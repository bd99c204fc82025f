/**
 * The complete interface between the main thread and an engine's thread. Calls go over comlink, events come back
 * through a port of their own. KV travels from engine to engine by src/transport, never over this interface.
 */

import type { Arithmetic } from '../config/arithmetic.ts';
import type { KvLayout } from '../config/cluster-schema.ts';
import type { EngineCoreConfig } from '../config/engine.ts';
import type { CacheLookup } from '../engine/inspect/cache-lookup.ts';
import type { RefusedRequest } from '../engine/kv-connector.ts';
import type { EngineRequest } from '../engine/types.ts';
import type { AdapterReport } from '../gpu/adapter-report.ts';
import type { MeasuredKernels, TimingMode } from '../measure/spans/profile.ts';
import type { GemmChoice } from '../model/kernels/gemm-forms.ts';
import type { KernelSet } from '../model/kernels/pass-kernels.ts';
import type { Checkpoint } from '../model/weights/hf-weights.ts';
import type { HandCopy, HandCopyPlan } from '../transport/by-hand.ts';
import type { FaultKind } from '../transport/faults.ts';
import type { LinkSpec } from '../transport/link.ts';
import type { BlockPair, EngineIdentity, RemoteAddress, TransferResult } from '../transport/types.ts';
import type { EngineBlocks, EngineStats } from './engine-report.ts';

export interface EngineStart {
  core: EngineCoreConfig;
  model: { name: string; weightSeed: number; weightDtype: 'f16' | 'f32' };
  /** The model's files as found and checked by the caller; null: the model is a preset without a checkpoint. */
  checkpoint: Checkpoint | null;
  /**
   * Memory in which engines that start together generate their weights once for all; null: this engine generates its
   * own.
   */
  sharedWeights: SharedArrayBuffer | null;
  layout: KvLayout;
  /** Whether its driver may use threads of its own, if engines differ in that; null: they do not. */
  driverThreads: boolean | null;
  /** Kernels that are compiled before it serves. */
  kernels: KernelSet;
  /**
   * Order of the pipelines. Two engines that start together use opposite orders, so that each finds in the driver's
   * cache what the other compiled.
   */
  compileOrder: 'forwards' | 'backwards';
  link: LinkSpec | null;
  checksum: boolean;
  /** Milliseconds of a peer's silence after which it is asked again. */
  silenceMs: number;
  /** Variants of the matrix kernel; null: those that the adapter uses without measurement. */
  gemm: GemmChoice | null;
  /** Arithmetic of matrix products. */
  arithmetic: Arithmetic;
  keepLogits: boolean;
  poison: boolean;
  /** 'short-window': its windows are one token shorter than the model's. */
  fault: FaultKind | 'short-window' | null;
}

export interface EngineStarted {
  adapter: AdapterReport;
  /** Bytes by purpose: everything on its device, and `shared` with its reader once the two have met. */
  memory: Record<string, number>;
  /** Bytes per block in the pool, the same for every KV cache group. */
  blockBytes: number;
  /** What peers must agree on to exchange blocks with it. */
  identity: EngineIdentity;
  parameters: number;
  /** Milliseconds; loading and compiling run in parallel. */
  loadMs: number;
  compileMs: number;
  pipelines: number;
  /** Whether its driver computes with threads of its own. */
  driverThreads: boolean;
}

/** Calls for serving. Every call may reject with a KvferryError. */
export interface ServingApi {
  start(start: EngineStart, events: MessagePort): Promise<EngineStarted>;
  /** `link`: the link to this peer; null: the engine's own. */
  addPeer(peer: RemoteAddress, port: MessagePort, link: LinkSpec | null): Promise<void>;
  peerDied(engineId: string): Promise<void>;
  /** sentMs: when the router sent it, in milliseconds on the shared clock. */
  addRequest(request: EngineRequest, sentMs: number): Promise<void>;
  abortRequest(requestId: string): Promise<void>;
  /** Ends a request whose text contains a stop string, as a stop token would. Its end comes as an output. */
  stopRequest(requestId: string): Promise<void>;
  /** For a request that was refused before it reached the engine: tells a holder that it names to free its blocks. */
  refuseRequest(request: RefusedRequest): Promise<void>;
  /** Ends the given holds, or all; unknown ids are ignored. */
  releaseHolds(requestIds: readonly string[] | 'all'): Promise<void>;
  /** vLLM's rule: resolves to false and does nothing unless only the null block is in use. */
  resetPrefixCache(): Promise<boolean>;
  /** Resolves when nothing is running, waiting, held or being transferred. */
  drain(): Promise<void>;
  /** Drains, then rebuilds the policy around the same device, weights and peers. */
  reconfigure(core: EngineCoreConfig, link: LinkSpec | null): Promise<void>;
  /** Ends the loop, the transport and the device. The thread ends after the answer. */
  shutdown(): Promise<void>;
}

/** Read-only calls. They change nothing that is served. */
export interface InspectionApi {
  stats(): Promise<EngineStats>;
  /** What the engine has of a sequence. Schedules and runs nothing. */
  lookup(tokenIds: readonly number[], cacheSalt: string | null): Promise<CacheLookup>;
  /** What each block contains, and how full the slabs to this engine's readers are. */
  blocks(): Promise<EngineBlocks>;
  /** Copies of the blocks as they are on the device, to compare both ends of a transfer. */
  readBlocks(blockIds: readonly number[]): Promise<Uint8Array[]>;
  checkIntegrity(): Promise<void>;
  /** Turns 'load' events on or off. */
  reportLoad(enabled: boolean): Promise<void>;
  /** A number: a new listener to 'cache' events, who first gets what the cache contains. null: there is none any more. */
  reportCacheEvents(to: number | null): Promise<void>;
}

/** jumpMs: milliseconds to add from now on. stallMs: milliseconds to stand still. */
export type ClockChange = { jumpMs: number } | { stallMs: number };

/** Calls for experiments. Measurements need an idle engine. */
export interface LabApi {
  /** Makes cached blocks of the sequence beyond its first keepTokens tokens unfindable. */
  forgetPrefix(tokenIds: readonly number[], cacheSalt: string | null, keepTokens: number): Promise<void>;
  /** Expires the holds of a direction now, as their TTL would. Returns how many ended. */
  expireHolds(direction: 'prefill' | 'decode'): Promise<number>;
  /** Serves any block to any reader, until reconfigure(). */
  serveAnyBlock(): Promise<void>;
  /** Measures a whole transfer, into unused blocks. */
  measureRead(remote: RemoteAddress, pairs: readonly BlockPair[]): Promise<TransferResult>;
  /** Performs this end's half of a transfer, into or out of the slab; returns one entry per copy. */
  copyByHand(plan: HandCopyPlan): Promise<HandCopy[]>;
  /**
   * Times submits or kernels by the device's clock from the next step on; null stops. Resolves to false if the device
   * has no such clock.
   */
  setTiming(mode: TimingMode | null): Promise<boolean>;
  /** Kernel times since the last call or since setTiming. Also measures the ceilings now. */
  takeKernelTimes(): Promise<MeasuredKernels>;
  /** Moves the engine's own clock. Rejects with RequestError if that clock cannot be moved. */
  moveClock(change: ClockChange): Promise<void>;
  /** Loses the device, as a driver's reset would, and with it every request. */
  loseDevice(): Promise<void>;
  /** Makes the device report that it is out of memory. */
  exhaustDevice(): Promise<void>;
}

/** Everything that an engine's thread offers. */
export interface EngineApi {
  serving: ServingApi;
  inspection: InspectionApi;
  lab: LabApi;
}
