/** The watched fleet: its settings, its thread and what the thread reports, as signals for the views. */
import { batch, computed, type ReadonlySignal, signal } from '@preact/signals';
import { messageOf } from '../../../src/errors.ts';
import type { LiveNews, LiveOrder } from '../../../src/simulate/live/protocol.ts';
import type { LiveLook, TurnPath } from '../../../src/simulate/live/view.ts';
import { changeHash, type HashChange } from '../session/address.ts';
import { costsHere } from '../session/experiments/costs.ts';
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

/** Between two updates with reduced motion. */
const CALM_MS = 1000;

/** The settings when the view was left. They are restored on return, unless the address has others. */
let last = defaultFleet;

export class Fleet {
  readonly settings = signal<FleetSettings>(fleetSchema.parse({}));
  /** The latest state; null until the first one arrives. */
  readonly look = signal<LiveLook | null>(null);
  /** Simulated seconds per second of wall time that were reached. */
  readonly speed = signal(0);
  readonly held = signal(false);
  readonly path = signal<TurnPath | null>(null);
  /** Why the fleet stopped; null while it runs. */
  readonly failed = signal<string | null>(null);
  /** Why real engines cannot run in this browser; null: they can, or it is not known yet. */
  readonly missing = signal<string | null>(null);
  /** Progress message while real engines start; null otherwise. */
  readonly starting = signal<string | null>(null);
  /** The adapter of the real engines; '' while none run. */
  readonly adapter = signal('');
  /** Why real engines were replaced by simulated ones; null: they were not. */
  readonly gaveWay = signal<string | null>(null);
  /** Id of the engine whose tile is open; null: none. */
  readonly opened = signal<string | null>(null);
  readonly notes = new Notes();
  readonly exercise = new Exercise(this.settings);
  readonly nowMs: ReadonlySignal<number> = computed(() => this.look.value?.nowMs ?? 0);
  readonly isReal: ReadonlySignal<boolean> = computed(() => this.settings.value.engines === 'real');
  #thread: FleetThread | null = null;
  /** The kind of engines that the current thread runs. */
  #engines: FleetSettings['engines'] = 'simulated';
  /** Between watch() and its end. A measurement may finish later, and must not start anything then. */
  #watched = false;
  /** Turn whose path is wanted; null: none, and answers for other turns are dropped. */
  #followed: string | null = null;
  #lookedMs = Number.NEGATIVE_INFINITY;

  constructor() {
    this.#read(last, last);
  }

  /** Runs the fleet until the returned function is called. */
  watch(): () => void {
    const seen = () => this.#pace();
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

  /** Starts a new fleet at 0 s. */
  begin(): void {
    batch(() => {
      this.look.value = null;
      this.letGo();
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

  /** A change from a control. If the running fleet cannot apply it, a new fleet starts. */
  set(change: Partial<FleetSettings>): void {
    const before = this.settings.value;
    const parsed = fleetSchema.safeParse({ ...before, ...change });
    if (!parsed.success) {
      const { path, message } = parsed.error.issues[0]!;
      this.notes.say(
        `${String(path[0])} was set to ${String(change[path[0] as FleetKey])}: wanted ${message}`,
      );
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

  /** Switches to the costs measured last, with a new fleet. */
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

  /** Opens an engine's tile, or closes it if it is open. */
  open(engineId: string): void {
    this.opened.value = this.opened.value === engineId ? null : engineId;
    this.#order({ kind: 'open', engineId: this.opened.value });
  }

  follow(turnId: string): void {
    this.#followed = turnId;
    this.#order({ kind: 'path', turnId });
  }

  /** Stops following a turn. */
  letGo(): void {
    this.#followed = null;
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
        // If these settings cannot be simulated either, the simulation reports that.
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
      // The path grows until the answer has ended.
      if (this.#followed !== null && this.path.value?.latencyMs === null) this.follow(this.#followed);
    } else if (news.kind === 'said') this.notes.say(news.message);
    else if (news.kind === 'path' && this.#followed !== null) {
      if (news.path) {
        if (news.path.decision.turnId === this.#followed) this.path.value = news.path;
      } else {
        // A path that has not ended would be requested again and again.
        if (this.path.value?.latencyMs === null) this.path.value = null;
        this.notes.say('That turn is no longer remembered: choose a newer one.');
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
    const still = this.held.value || document.visibilityState !== 'visible';
    this.#order({ kind: 'pace', speed: still ? 0 : speedOf(this.settings.value.pace) });
  }

  #order(order: LiveOrder): void {
    this.#thread?.order(order);
  }

  /** `base`: the settings if the address has none. `otherwise`: the settings if the address's combination is impossible. */
  #read(base: FleetSettings, otherwise: FleetSettings): void {
    const asked = fleetFromHash(location.hash, base);
    const { settings, problems: beyond } = withinReach(asked.settings);
    const problems = [...asked.problems, ...beyond];
    const known = settings.costs !== MEASURED || costsHere.value !== null;
    const read = known ? settings : { ...settings, costs: defaultFleet.costs };
    if (!known)
      problems.push(
        `The address asks for costs that were measured on another page: ${defaultFleet.costs} is used here until you measure.`,
      );
    try {
      checkFleet(read, loadOf(read));
      this.settings.value = read;
    } catch (error) {
      problems.push(
        `The address asks for an impossible fleet: ${messageOf(error)}. Its fleet settings are ignored.`,
      );
      this.settings.value = otherwise;
    }
    if (problems.length > 0) this.notes.say(problems.join(' '));
  }

  #write(): void {
    changeHash(this.#toHash);
  }

  /** Once the view was left, its settings stay out of the address. */
  readonly #toHash: HashChange = (hash) => (this.#watched ? hashWithFleet(hash, this.settings.value) : hash);

  #follow(): void {
    // The view is about to close and keeps its settings.
    if (!fleetShown.value) return;
    const before = this.settings.value;
    if (hashWithFleet(location.hash, before) === location.hash) return;
    this.#read(defaultFleet, before);
    // Removes the invalid parts from the address.
    this.#write();
    this.#apply(before, this.settings.value);
  }
}
