/** The network over which simulated engines send notifications and READs to each other. */
import type { EngineRole } from '../../router/engine-client.ts';
import type { EngineIdentity, RemoteAddress, TransportHandlers } from '../../transport/types.ts';
import type { VirtualClock } from '../clock.ts';
import type { SimulationCosts } from '../costs/types.ts';
import type { Machine } from '../machine.ts';
import type { Resource } from '../resources.ts';
import type { SimulatedWires } from './wires.ts';

/** The link from one engine to another. Without one (null), a READ takes no more than the engines' own copies. */
export interface SimulatedLink {
  resource: Resource;
  latencyMs: number;
}

export interface NetDeps {
  clock: VirtualClock;
  costs: Pick<
    SimulationCosts,
    'readMs' | 'readContentionMs' | 'readFromStepsMs' | 'pullFromStepsMs' | 'messageMs' | 'store'
  >;
  /** An engine's role; null: it is gone, or is no engine. */
  roleOf: (engineId: string) => EngineRole | null;
  /** The current link from one engine to another, by their ids; null: none is modelled. */
  link: (from: string, to: string) => SimulatedLink | null;
  /** Call before an engine is told or asked something: brings it up to the current time. */
  catchUp: (engineId: string) => void;
  /** Milliseconds for which an engine's device is still busy with work that it got before a copy. */
  deviceBusyMs: (engineId: string) => number;
  /** The machine that all engines share; null: each has its own. */
  machine: Machine | null;
  /** Draws the factor by which a READ's time differs from the modelled one. */
  varies: () => number;
  /** Call when something happened to an engine that may let it step. */
  touch: (engineId: string) => void;
  /** Delivers messages, with faults; null: every message arrives once, when it is due. */
  wires: SimulatedWires | null;
  /** A message without an answer is sent again after this time, milliseconds. */
  silenceMs: number;
}

export interface NetCounts {
  started: number;
  /** Whatever the outcome. */
  ended: number;
  bytes: number;
}

/** An engine's node in the network. */
interface NetNode {
  identity: EngineIdentity;
  handlersFor(peer: string): Partial<TransportHandlers>;
  end(): void;
}

export class SimulatedNet<Node extends NetNode> {
  readonly deps: NetDeps;
  readonly counts: NetCounts = { started: 0, ended: 0, bytes: 0 };
  readonly #nodes = new Map<string, Node>();

  constructor(deps: NetDeps) {
    this.deps = deps;
  }

  join(node: Node): void {
    this.#nodes.set(node.identity.engineId, node);
  }

  /** The engine ended: READs from it and by it end, and all other engines are told. */
  leave(engineId: string): void {
    this.#nodes.get(engineId)?.end();
    this.#nodes.delete(engineId);
    for (const node of this.#nodes.values()) {
      const own = node.identity.engineId;
      this.deps.catchUp(own);
      node.handlersFor(engineId).onPeerGone?.(engineId);
      this.deps.touch(own);
    }
  }

  /** Ids of the engines that it may send to. */
  others(engineId: string): string[] {
    return [...this.#nodes.keys()].filter((other) => other !== engineId);
  }

  node({ engineId }: Pick<RemoteAddress, 'engineId'>): Node | undefined {
    return this.#nodes.get(engineId);
  }
}
