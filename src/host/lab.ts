/** The part of an engine thread's interface for experiments and demonstrations; serving does not need it. */
import { RequestError } from '../errors.ts';
import { measureCeilings } from '../gpu/ceilings.ts';
import type { MeasuredKernels, TimingMode } from '../measure/spans/profile.ts';
import { copyByHand, type HandCopy, type HandCopyPlan } from '../transport/by-hand.ts';
import { claimPrefix } from '../transport/prefix-claim.ts';
import type { BlockPair, RemoteAddress, TransferResult } from '../transport/types.ts';
import type { ClockChange, LabApi } from './engine-api.ts';
import type { HostDeps, RunningEngine } from './running-engine.ts';

export class EngineLab implements LabApi {
  readonly #engine: RunningEngine;
  readonly #deps: Pick<HostDeps, 'platform' | 'clock' | 'moveClock'>;

  constructor(engine: RunningEngine, deps: Pick<HostDeps, 'platform' | 'clock' | 'moveClock'>) {
    this.#engine = engine;
    this.#deps = deps;
  }

  async forgetPrefix(tokenIds: readonly number[], cacheSalt: string | null, keep: number): Promise<void> {
    this.#engine.policy().core.forgetPrefix(tokenIds, cacheSalt, keep);
  }

  async expireHolds(direction: 'prefill' | 'decode'): Promise<number> {
    const ended = this.#engine.policy().connector?.holds?.expireNow(direction) ?? 0;
    this.#engine.wake();
    return ended;
  }

  async serveAnyBlock(): Promise<void> {
    const gate = () => ({ allow: true as const, finished: () => {} });
    this.#engine.parts().transport.setHandlers({ gate });
  }

  async measureRead(remote: RemoteAddress, pairs: readonly BlockPair[]): Promise<TransferResult> {
    const { transport } = this.#engine.parts();
    const nothing = claimPrefix(false)([], 0, null);
    const claim = { held: nothing, prompt: nothing };
    const id = 'measure';
    return transport.read({ remote, remoteRequestId: id, claim, requestId: id, pairs });
  }

  async copyByHand(plan: HandCopyPlan): Promise<HandCopy[]> {
    return copyByHand(this.#engine.parts().kv, plan, this.#deps.clock);
  }

  async setTiming(mode: TimingMode | null): Promise<boolean> {
    return this.#engine.parts().runner.setTiming(mode);
  }

  async takeKernelTimes(): Promise<MeasuredKernels> {
    const { runner, gpu, transport } = this.#engine.parts();
    const times = runner.takeKernelTimes();
    const { platform, clock } = this.#deps;
    const ceilings = await measureCeilings(gpu, platform.readShader, clock);
    return { engineId: transport.identity.engineId, ...times, ceilings };
  }

  async moveClock(change: ClockChange): Promise<void> {
    const { moveClock } = this.#deps;
    if (!moveClock)
      throw new RequestError("this engine's clock cannot be moved: use an engine in a Node thread");
    moveClock(change);
    this.#engine.wake();
  }

  async loseDevice(): Promise<void> {
    this.#engine.parts().gpu.destroy('the device was lost');
  }

  async exhaustDevice(): Promise<void> {
    this.#engine.parts().gpu.reported('out of memory');
  }
}
