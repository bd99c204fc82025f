/** Who is there of simulated engines, for each other's notifications and READs. */
import type { EngineRole } from '../router/engine-client.ts';
import type { EngineIdentity, RemoteAddress, TransportHandlers } from '../transport/types.ts';
import type { VirtualClock } from './clock.ts';
import type { SimulationCosts } from './costs/types.ts';
import type { Machine } from './machine.ts';
import type { Resource } from './resources.ts';
import type { SimulatedWires } from './wires.ts';

/** The way from one engine to another: null takes no more than the engines' own copies. */
export interface SimulatedLink {
  resource: Resource;
  latencyMs: number;
}

export interface NetDeps {
  clock: VirtualClock;
  costs: Pick<
    SimulationCosts,
    'readMs' | 'readBesideMs' | 'readFromStepsMs' | 'pullFromStepsMs' | 'messageMs' | 'store'
  >;
  /** What an engine is there for; null: it is not there, or is no engine. */
  roleOf: (engineId: string) => EngineRole | null;
  /** The link in force from one engine to another, by their ids. */
  link: (from: string, to: string) => SimulatedLink | null;
  /** Call before what an engine is told or asked: it has done all that it did until now. */
  catchUp: (engineId: string) => void;
  /** How long an engine's device is still busy with what it was given before a copy. */
  deviceBusyMs: (engineId: string) => number;
  /** What all engines compute on together; null: each has its own. */
  machine: Machine | null;
  /** Something happened to an engine that may let it step. */
  touch: (engineId: string) => void;
  /** null: every message arrives once, when it is due. */
  wires: SimulatedWires | null;
  /** What is not answered for so long is asked for anew, milliseconds. */
  silenceMs: number;
}

export interface NetCounts {
  started: number;
  /** However. */
  ended: number;
  bytes: number;
}

/** An engine's place in it. */
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

  /** The engine ended: whoever reads from it hears of it, and it reads no more. */
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

  /** Whom the engine may send to. */
  others(engineId: string): string[] {
    return [...this.#nodes.keys()].filter((other) => other !== engineId);
  }

  node({ engineId }: Pick<RemoteAddress, 'engineId'>): Node | undefined {
    return this.#nodes.get(engineId);
  }
}
