/** The fleet that is watched: its settings, its thread and what that tells, as signals for the views. */
import { batch, computed, type ReadonlySignal, signal } from '@preact/signals';
import { messageOf } from '../../../src/errors.ts';
import type { LiveLook, TurnPath } from '../../../src/simulate/live/look.ts';
import type { LiveNews, LiveOrder } from '../../../src/simulate/live/protocol.ts';
import { changeHash, type HashChange } from '../session/address.ts';
import { costsHere } from '../session/costs.ts';
import { fleetShown } from '../session/shown.ts';
import { whatIsMissing } from '../session/support.ts';
import { reducedMotion } from '../views/palette.ts';
import { fleetFromHash, hashWithFleet } from './address.ts';
import { Exercise } from './exercise.ts';
import { Notes } from './notes.ts';
import { startReal } from './real/start-real.ts';
import {
  checkFleet,
  defaultFleet,
  type FleetKey,
  type FleetSettings,
  fleetSchema,
  liveOf,
  loadOf,
  MEASURED,
  needsNewFleet,
  speedOf,
  withinReach,
} from './settings.ts';
import { type FleetThread, startThread } from './thread.ts';

/** Between two looks, for those who want less motion. */
const CALM_MS = 1000;

/** As it was when it was left: who comes back finds it so, unless the address says otherwise. */
let last = defaultFleet;

export class Fleet {
  readonly settings = signal<FleetSettings>(fleetSchema.parse({}));
  /** null until the first one. */
  readonly look = signal<LiveLook | null>(null);
  /** Simulated time a second of the wall's, as it came to be. */
  readonly speed = signal(0);
  readonly held = signal(false);
  readonly path = signal<TurnPath | null>(null);
  /** Why nothing runs; null: it does. */
  readonly failed = signal<string | null>(null);
  /** Why real engines cannot run in this browser; null: they can, or nobody knows yet. */
  readonly missing = signal<string | null>(null);
  /** What real engines are waited for; null: for nothing. */
  readonly starting = signal<string | null>(null);
  /** What real engines run on; '' while none do. */
  readonly adapter = signal('');
  /** Why real engines gave way to simulated ones; null: they did not. */
  readonly gaveWay = signal<string | null>(null);
  /** Whose blocks are looked into; null: nobody's. */
  readonly opened = signal<string | null>(null);
  readonly notes = new Notes();
  readonly exercise = new Exercise(this.settings);
  readonly nowMs: ReadonlySignal<number> = computed(() => this.look.value?.nowMs ?? 0);
  readonly isReal: ReadonlySignal<boolean> = computed(() => this.settings.value.engines === 'real');
  #thread: FleetThread | null = null;
  /** What is simulated, or runs, now. */
  #engines: FleetSettings['engines'] = 'simulated';
  #hidden = false;
  /** Between watch() and its end: what is measured may come later, and must start nothing. */
  #watched = false;
  #lookedMs = Number.NEGATIVE_INFINITY;

  constructor() {
    this.#read(last, last);
  }

  /** From here on until what it returns is called. */
  watch(): () => void {
    const seen = () => {
      this.#hidden = document.visibilityState !== 'visible';
      this.#pace();
    };
    const follow = () => this.#follow();
    this.#watched = true;
    document.addEventListener('visibilitychange', seen);
    addEventListener('hashchange', follow);
    this.#write();
    this.begin();
    void whatIsMissing().then((missing) => {
      this.missing.value = missing?.message ?? null;
    });
    return () => {
      last = this.settings.value;
      this.#watched = false;
      document.removeEventListener('visibilitychange', seen);
      removeEventListener('hashchange', follow);
      this.#thread?.end();
      this.#thread = null;
      this.exercise.stop();
    };
  }

  /** Anew, at 0 s. */
  begin(): void {
    batch(() => {
      this.look.value = null;
      this.path.value = null;
      this.failed.value = null;
      this.starting.value = null;
      this.adapter.value = '';
      this.opened.value = null;
    });
    const { engines } = this.settings.value;
    if (this.#thread && engines !== this.#engines) {
      this.#thread.end();
      this.#thread = null;
    }
    this.#engines = engines;
    this.#thread ??= engines === 'real' ? this.#real() : this.#simulated();
    this.#order({ kind: 'start', settings: liveOf(this.settings.value, costsHere.value) });
    this.#pace();
  }

  /** A change from a control; what the fleet cannot take on while it runs begins it anew. */
  set(change: Partial<FleetSettings>): void {
    const before = this.settings.value;
    const parsed = fleetSchema.safeParse({ ...before, ...change });
    if (!parsed.success) {
      const { path, message } = parsed.error.issues[0]!;
      this.notes.say(`${String(path[0])} is to be ${String(change[path[0] as FleetKey])}: wanted ${message}`);
      return;
    }
    const { settings, problems } = withinReach(parsed.data);
    try {
      checkFleet(settings, loadOf(settings));
    } catch (error) {
      this.notes.say(messageOf(error));
      return;
    }
    if (problems.length > 0) this.notes.say(problems.join(' '));
    if (change.engines) this.gaveWay.value = null;
    this.settings.value = settings;
    this.#write();
    this.#apply(before, settings);
  }

  /** Goes by the times that were measured last, from 0 s on. */
  measured(): void {
    if (!this.#watched) last = { ...last, costs: MEASURED };
    else if (this.settings.value.costs === MEASURED) this.begin();
    else this.set({ costs: MEASURED });
  }

  hold(held: boolean): void {
    this.held.value = held;
    this.#pace();
  }

  scale(role: 'prefill' | 'decode', by: 1 | -1): void {
    const engines = this.look.value?.engines ?? [];
    const there = engines.filter((engine) => engine.role === role && engine.state !== 'leaving').length;
    this.#order({ kind: 'scale', target: { [role]: there + by } });
  }

  kill(engineId: string): void {
    this.#order({ kind: 'kill', engineId });
  }

  revive(): void {
    this.#order({ kind: 'revive' });
  }

  /** Once more: no longer. */
  open(engineId: string): void {
    this.opened.value = this.opened.value === engineId ? null : engineId;
    this.#order({ kind: 'open', engineId: this.opened.value });
  }

  follow(turnId: string): void {
    this.#order({ kind: 'path', turnId });
  }

  /** No turn is followed any more. */
  letGo(): void {
    this.path.value = null;
  }

  #simulated(): FleetThread {
    return startThread(
      (news) => this.#heard(news),
      (why) => {
        this.#thread = null;
        this.failed.value = why;
      },
    );
  }

  #real(): FleetThread {
    return startReal({
      heard: (news) => this.#heard(news),
      starting: (message, adapter) => {
        this.starting.value = message;
        this.adapter.value = adapter;
      },
      failed: (why) => {
        this.#thread = null;
        // Whatever the settings are: what cannot be simulated either says so itself.
        this.settings.value = { ...this.settings.value, engines: 'simulated' };
        this.#write();
        this.begin();
        this.gaveWay.value = why;
      },
    });
  }

  #heard(news: LiveNews): void {
    if (news.kind === 'look') {
      const now = performance.now();
      if (reducedMotion.peek() && !this.held.peek() && now - this.#lookedMs < CALM_MS) return;
      this.#lookedMs = now;
      batch(() => {
        this.look.value = news.look;
        this.speed.value = news.speed;
      });
      // It goes on until its answer ended.
      const path = this.path.value;
      if (path?.latencyMs === null) this.follow(path.decision.turnId);
    } else if (news.kind === 'said') this.notes.say(news.message);
    else if (news.kind === 'path') {
      if (news.path) this.path.value = news.path;
      else {
        // One that has not ended would be asked for again and again.
        if (this.path.value?.latencyMs === null) this.path.value = null;
        this.notes.say('that turn is not remembered any more: choose a newer one');
      }
    }
  }

  #apply(before: FleetSettings, now: FleetSettings): void {
    if (!this.#thread || needsNewFleet(before, now)) {
      this.begin();
      return;
    }
    if (JSON.stringify(loadOf(before)) !== JSON.stringify(loadOf(now)))
      this.#order({ kind: 'load', load: loadOf(now) });
    if (before.routing !== now.routing) this.#order({ kind: 'routing', name: now.routing });
    if (before.autoscale !== now.autoscale) this.#order({ kind: 'autoscale', name: now.autoscale });
    if (before.pace !== now.pace) this.#pace();
  }

  #pace(): void {
    const still = this.held.value || this.#hidden;
    this.#order({ kind: 'pace', speed: still ? 0 : speedOf(this.settings.value.pace) });
  }

  #order(order: LiveOrder): void {
    this.#thread?.order(order);
  }

  /** `base`: what is so where the address says nothing; `otherwise`: where all that it says together cannot be. */
  #read(base: FleetSettings, otherwise: FleetSettings): void {
    const asked = fleetFromHash(location.hash, base);
    const { settings, problems: beyond } = withinReach(asked.settings);
    const problems = [...asked.problems, ...beyond];
    const known = settings.costs !== MEASURED || costsHere.value !== null;
    const read = known ? settings : { ...settings, costs: defaultFleet.costs };
    if (!known)
      problems.push(
        `The address asks for costs that were measured in another page: here it is ${defaultFleet.costs} until you measure.`,
      );
    try {
      checkFleet(read, loadOf(read));
      this.settings.value = read;
    } catch (error) {
      problems.push(
        `The address asks for a fleet that cannot be: ${messageOf(error)}. What it sets of the fleet is ignored.`,
      );
      this.settings.value = otherwise;
    }
    if (problems.length > 0) this.notes.say(problems.join(' '));
  }

  #write(): void {
    changeHash(this.#toHash);
  }

  /** Left meanwhile it has nothing in the address. */
  readonly #toHash: HashChange = (hash) => (this.#watched ? hashWithFleet(hash, this.settings.value) : hash);

  #follow(): void {
    // It is about to go, and keeps what it had.
    if (!fleetShown.value) return;
    const before = this.settings.value;
    if (hashWithFleet(location.hash, before) === location.hash) return;
    this.#read(defaultFleet, before);
    // Without what it could not mean.
    this.#write();
    this.#apply(before, this.settings.value);
  }
}
