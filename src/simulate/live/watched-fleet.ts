/** What watched fleets, simulated and real, have in common, and the orders that both carry out. */
import type { AutoscalerName } from '../../config/autoscale.ts';
import type { RoutingName } from '../../config/routing.ts';
import { messageOf, RequestError } from '../../errors.ts';
import type { AutoscaleChoice } from '../../router/autoscale/registry.ts';
import type { ScaleTarget } from '../../router/scaling/plan.ts';
import { liveAutoscaler } from './autoscaling.ts';
import type { FleetLog } from './fleet-log.ts';
import type { FleetOrder, LiveNews } from './protocol.ts';
import type { LiveLoadSettings, LiveSettings } from './settings.ts';
import type { LiveEvent, TurnPath } from './view.ts';

export abstract class WatchedFleet {
  protected readonly settings: LiveSettings;
  protected readonly log: FleetLog;
  /** Called with the reason why an order cannot be carried out. */
  protected readonly said: (message: string) => void;
  protected opened: string | null = null;
  #scaling = 0;
  #stopAutoscaler: (() => void) | null = null;

  constructor(settings: LiveSettings, log: FleetLog, said: (message: string) => void) {
    this.settings = settings;
    this.log = log;
    this.said = said;
  }

  abstract get nowMs(): number;

  /** Applies to conversations that start from now on. */
  abstract changeLoad(load: LiveLoadSettings): void;

  abstract changeRouting(name: RoutingName): void;

  /** New engines start first; leaving ones drain. */
  abstract scale(target: ScaleTarget): void;

  /** Ends an engine without telling the others, like a crash. */
  abstract kill(engineId: string): void;

  /** Starts engines in the places of those that died. */
  abstract revive(): void;

  /** Returns a function that stops it. */
  protected abstract startAutoscaler(choice: AutoscaleChoice): () => void;

  /** An error that is neither a request's nor a refused change's. */
  protected abstract broke(error: unknown): void;

  /** null: no autoscaler; the number of engines stays until scale(). */
  autoscale(name: AutoscalerName | null): void {
    this.stopAutoscaler();
    if (name !== null)
      this.#stopAutoscaler = this.startAutoscaler(liveAutoscaler(name, this.settings.mostEngines));
    this.happened('autoscaler', name ?? 'none');
  }

  /** The engine whose blocks looks show; null: none. */
  open(engineId: string | null): void {
    this.opened = engineId;
  }

  path(turnId: string): TurnPath | null {
    return this.log.path(turnId);
  }

  protected get scaling(): boolean {
    return this.#scaling > 0;
  }

  protected stopAutoscaler(): void {
    this.#stopAutoscaler?.();
    this.#stopAutoscaler = null;
  }

  /** Whether a change failed for a reason that the viewer is told, and the fleet goes on. */
  protected refused(error: unknown): boolean {
    return error instanceof RequestError;
  }

  protected changes(change: Promise<unknown>): void {
    this.#scaling++;
    change
      .catch((error: unknown) => {
        if (this.refused(error)) this.said(messageOf(error));
        else this.broke(error);
      })
      .finally(() => {
        this.#scaling--;
      });
  }

  protected happened(event: LiveEvent['event'], detail: string): void {
    this.log.happened({ atMs: this.nowMs, event, engineId: null, detail });
  }
}

/** Without a fleet, no turn has a path, and other orders have no effect. */
export function carryOut(
  fleet: WatchedFleet | null,
  order: FleetOrder,
  tell: (news: LiveNews) => void,
): void {
  switch (order.kind) {
    case 'load':
      fleet?.changeLoad(order.load);
      break;
    case 'routing':
      fleet?.changeRouting(order.name);
      break;
    case 'autoscale':
      fleet?.autoscale(order.name);
      break;
    case 'scale':
      fleet?.scale(order.target);
      break;
    case 'kill':
      fleet?.kill(order.engineId);
      break;
    case 'revive':
      fleet?.revive();
      break;
    case 'open':
      fleet?.open(order.engineId);
      break;
    case 'path':
      tell({ kind: 'path', path: fleet?.path(order.turnId) ?? null });
  }
}
