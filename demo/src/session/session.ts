/**
 * The page's session: what the controls and lessons may do, done one thing at a time. Engines are engines.ts, a recording
 * is replay.ts; whatever happens becomes events, and state.ts makes the state of them.
 */

import type { SessionEvent } from '../../../src/measure/recording.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { Conversation } from './conversation.ts';
import { runCrossover } from './crossover.ts';
import { Engines } from './engines.ts';
import { checkedSettings, fromHash, toHash } from './hash.ts';
import { reloadIsolated } from './isolation.ts';
import { download, EventLog } from './log.ts';
import { runRace } from './race.ts';
import { parseRecording, Replay } from './replay.ts';
import type { Settings } from './settings.ts';
import { applyEvent, createState, type WritableState } from './state.ts';
import { script, secondScript, suggest } from './suggestions.ts';
import { whatIsMissing } from './support.ts';
import type { Role, Session, SessionActions, SessionState } from './types.ts';

/** Time to read an answer before the next question is played. */
const READING_MS = 900;
const SHIPPED_RECORDING = 'recordings/shipped.json';

export function createSession(): Session {
  const session = new PageSession();
  void session.begin();
  return session;
}

class PageSession implements Session, SessionActions {
  readonly state: SessionState;
  readonly #state: WritableState;
  readonly #originMs = systemClock.now();
  readonly #log = new EventLog();
  readonly #engines: Engines;
  #replay: Replay | null = null;
  #conversations = 0;
  #chat = this.#newConversation();
  #second: Conversation | null = null;
  /** What runs now; null while the next thing can begin. */
  #task: { abort: AbortController; done: Promise<void> } | null = null;

  constructor() {
    const { settings, problems } = fromHash(location.hash);
    this.#state = createState(() => this.#nowMs(), settings);
    this.state = this.#state;
    this.#engines = new Engines(
      (event) => this.#emit(event),
      this.#originMs,
      () => this.#task !== null,
    );
    for (const problem of problems) this.#note('warning', problem);
    addEventListener('hashchange', () => this.#followHash());
    this.#suggest();
  }

  get actions(): SessionActions {
    return this;
  }

  async begin(): Promise<void> {
    if (await reloadIsolated()) return;
    const missing = await whatIsMissing();
    if (missing) {
      await this.#replayShipped(missing.message);
      return;
    }
    await this.#rebuild(this.#state.settings.value);
    const { turns } = this.#state.settings.value;
    if (this.#engines.running && turns > 0) void this.#play(turns);
  }

  async ask(question: string): Promise<void> {
    const asked = question.trim();
    if (asked === '' || this.#isRecording()) return;
    this.#state.playing.value = false;
    await this.#exclusive('Answering', (signal) => this.#turn(this.#chat, asked, signal));
  }

  stop(): void {
    this.#state.playing.value = false;
    this.#task?.abort.abort(new Error('It was stopped.'));
  }

  play(): void {
    if (this.#replay) this.#replay.play();
    else if (!this.#state.playing.value) void this.#play(script.length);
  }

  pause(): void {
    this.#replay?.pause();
    this.#state.playing.value = false;
  }

  async step(): Promise<void> {
    if (this.#replay) this.#replay.step();
    else await this.#playOne();
  }

  async reset(): Promise<void> {
    if (this.#replay) {
      this.#replay.seek(0);
      return;
    }
    await this.#cancel();
    await this.#exclusive('Emptying both engines', async () => {
      await this.#engines.configure(this.#state.settings.value);
      await this.#forgetConversations();
    });
  }

  async configure(change: Partial<Settings>): Promise<void> {
    let settings: Settings;
    try {
      settings = checkedSettings(this.#state.settings.value, change);
    } catch (error) {
      this.#note('warning', messageOf(error));
      return;
    }
    const { lesson: _, turns: __, ...before } = this.#state.settings.value;
    const { lesson: ___, turns: ____, ...after } = settings;
    const isPageOnly = JSON.stringify(before) === JSON.stringify(after);
    if (!isPageOnly && this.#isRecording()) return;
    const previous = this.#state.settings.value;
    this.#setSettings(settings);
    if (isPageOnly) return;
    await this.#cancel();
    if (!this.#engines.canChangeTo(settings)) {
      await this.#rebuild(settings);
      return;
    }
    await this.#exclusive('Changing the engines', async () => {
      try {
        await this.#engines.configure(settings);
      } catch (error) {
        // Found out late, such as a link's name: what was in force stays.
        this.#setSettings(previous);
        throw error;
      }
    });
  }

  editHistory(from: string, to: string): void {
    if (this.#isRecording()) return;
    const changed = this.#chat.edit(from, to);
    this.#note(
      'info',
      changed > 0
        ? `The history now says '${to}' where it said '${from}': ask about it.`
        : `Nobody said '${from}' yet.`,
    );
  }

  async evictPrefill(): Promise<void> {
    await this.#atEngine('prefill', async (engine) => {
      const emptied = await engine.call((api) => api.resetPrefixCache());
      this.#note(
        emptied ? 'info' : 'warning',
        emptied
          ? "P's prefix cache is empty: the next turn finds nothing there."
          : 'P still has blocks in use, and keeps its cache until they are free: let the turn end first.',
      );
    });
  }

  async expireHold(): Promise<void> {
    await this.#atEngine('decode', async (engine) => {
      const ended = await engine.call((api) => api.expireHolds('decode'));
      this.#note(
        'info',
        ended > 0
          ? `${ended === 1 ? "D's hold ran" : `${ended} of D's holds ran`} out: what P would pull is gone, and it will compute.`
          : 'D holds nothing for P now.',
      );
    });
  }

  async kill(role: Role): Promise<void> {
    if (this.#isRecording()) return;
    this.#state.playing.value = false;
    this.#note(
      'warning',
      `${role === 'prefill' ? 'P' : 'D'} was stopped without a word to the other engine.`,
    );
    await this.#engines.kill(role);
  }

  async revive(): Promise<void> {
    if (this.#isRecording()) return;
    await this.#exclusive('Building what ended', async () => {
      await this.#engines.revive();
    });
  }

  async runRace(): Promise<void> {
    if (this.#isRecording()) return;
    this.#state.playing.value = false;
    const settings = this.#state.settings.value;
    await this.#exclusive('Racing: recompute against pull', async (signal) => {
      const history = this.#chat.asked > 0 ? this.#chat.messages : await this.#storyFor(settings, signal);
      const question = suggest(settings.model, history)[0]!;
      const { emit, now } = this.#tools();
      const engines = this.#engines;
      try {
        await runRace({ engines, settings, history, question, signal, emit, now });
      } finally {
        await engines.configure(settings);
      }
    });
  }

  async runCrossover(): Promise<void> {
    if (this.#isRecording()) return;
    this.#state.playing.value = false;
    const settings = this.#state.settings.value;
    await this.#exclusive('Measuring both ways over growing histories', async (signal) => {
      const engines = this.#engines;
      try {
        await runCrossover({ engines, settings, signal, ...this.#tools() });
      } finally {
        await engines.configure(settings);
      }
    });
  }

  async loadModel(source: { files: readonly File[]; name: string } | { url: string }): Promise<void> {
    if (this.#isRecording()) return;
    try {
      const model =
        'url' in source ? modelUrl(source.url) : this.#engines.shelf.drop(source.name, source.files);
      await this.configure({ model });
    } catch (error) {
      this.#note('warning', messageOf(error));
    }
  }

  saveRecording(): void {
    const { model, mode } = this.#state.settings.value;
    const turns = this.#state.turns.value.length;
    const recording = this.#log.recording(`${model}, ${mode}, ${turns} turns`);
    download(`kvferry-${model.replace(/[^\w.-]+/g, '-')}-${mode}.json`, JSON.stringify(recording));
  }

  async loadRecording(file: File): Promise<void> {
    try {
      const recording = parseRecording(await file.text(), file.name);
      await this.#cancel();
      await this.#engines.close();
      this.#replay = new Replay(this.#state, recording);
      this.#replay.play();
    } catch (error) {
      this.#note('warning', messageOf(error));
    }
  }

  seek(atMs: number): void {
    this.#replay?.seek(atMs);
  }

  setSpeed(speed: number): void {
    this.#replay?.setSpeed(speed);
  }

  /** Plays the shipped conversation on, until so many of its turns were asked, or someone pauses. */
  async #play(until: number): Promise<void> {
    this.#state.playing.value = true;
    while (this.#state.playing.value && this.#chat.asked < until) {
      if (!(await this.#playOne())) break;
      if (this.#chat.asked < until) await systemClock.sleep(READING_MS);
    }
    this.#state.playing.value = false;
  }

  /** False when there is no next question, or it was not answered. */
  async #playOne(): Promise<boolean> {
    const question = script[this.#chat.asked];
    if (question === undefined) {
      this.#note('info', 'The shipped conversation is over: ask something, or reset.');
      return false;
    }
    const { conversations, turns } = this.#state.settings.value;
    const asked = this.#chat.asked;
    await this.#exclusive('Answering', async (signal) => {
      const both = [this.#turn(this.#chat, question, signal)];
      if (conversations === 2) {
        this.#second ??= this.#newConversation();
        both.push(this.#turn(this.#second, secondScript[asked]!, signal));
      }
      await Promise.all(both);
    });
    const answered = this.#chat.asked > asked;
    if (answered && this.#chat.asked > turns) {
      this.#setSettings({ ...this.#state.settings.value, turns: this.#chat.asked });
    }
    return answered;
  }

  async #turn(conversation: Conversation, question: string, signal: AbortSignal): Promise<void> {
    const { running } = this.#engines;
    if (!running) throw new Error('The engines are not running: choose a model, or reload the page.');
    await conversation.ask(running.recorder, this.#state.settings.value, question, signal);
  }

  /** Something to race over when nothing was said: the shipped conversation's first story. */
  async #storyFor(settings: Settings, signal: AbortSignal): Promise<Conversation['messages']> {
    const conversation = new Conversation('race-story');
    const { recorder } = this.#engines.running!;
    for (const line of script.slice(0, 2)) await conversation.ask(recorder, settings, line, signal);
    await recorder.endConversation(conversation.id);
    return conversation.messages;
  }

  /** One thing at a time; what goes wrong becomes a note, and engines that ended are built anew. */
  async #exclusive(message: string, run: (signal: AbortSignal) => Promise<void>): Promise<void> {
    if (this.#task) {
      this.#note('info', 'Something runs already: stop it first, or wait for its end.');
      return;
    }
    const abort = new AbortController();
    const done = this.#guarded(message, () => run(abort.signal));
    this.#task = { abort, done };
    await done;
    this.#task = null;
    this.#suggest();
  }

  async #guarded(message: string, run: () => Promise<void>): Promise<void> {
    try {
      await this.#engines.revive();
      this.#status('busy', message);
      await run();
    } catch (error) {
      this.#note('warning', messageOf(error));
    }
    try {
      await this.#engines.revive();
      if (this.#engines.running) this.#status('ready', 'Ready');
    } catch (error) {
      this.#status('failed', `An engine could not be built anew: ${messageOf(error)}`);
    }
  }

  async #cancel(): Promise<void> {
    this.stop();
    await this.#task?.done;
    // The task's own end comes first.
    await Promise.resolve();
    this.#task = null;
  }

  async #rebuild(settings: Settings): Promise<void> {
    const abort = new AbortController();
    const done = (async () => {
      try {
        await this.#forgetConversations();
        this.#log.clear();
        this.#emit({ kind: 'settings', atMs: this.#nowMs(), settings: { ...settings } });
        await this.#engines.start(settings);
        this.#status('ready', 'Ready');
      } catch (error) {
        this.#status('failed', messageOf(error));
      }
    })();
    this.#task = { abort, done };
    await done;
    this.#task = null;
    this.#suggest();
  }

  async #forgetConversations(): Promise<void> {
    const recorder = this.#engines.running?.recorder;
    for (const conversation of [this.#chat, this.#second]) {
      if (!conversation) continue;
      if (recorder) await recorder.endConversation(conversation.id).catch(() => {});
      this.#emit({ kind: 'conversation_ended', atMs: this.#nowMs(), conversation: conversation.id });
    }
    this.#chat = this.#newConversation();
    this.#second = null;
  }

  async #atEngine(
    role: Role,
    act: (engine: ReturnType<NonNullable<Engines['running']>['cluster']['engine']>) => Promise<void>,
  ): Promise<void> {
    const { running } = this.#engines;
    if (this.#isRecording() || !running) return;
    try {
      await act(running.cluster.engine(role));
      await running.recorder.poll();
    } catch (error) {
      this.#note('warning', messageOf(error));
    }
  }

  async #replayShipped(missing: string): Promise<void> {
    this.#note('warning', missing);
    try {
      const response = await fetch(SHIPPED_RECORDING);
      if (!response.ok) throw new Error(`the server answered ${response.status}`);
      this.#replay = new Replay(this.#state, parseRecording(await response.text(), SHIPPED_RECORDING));
      this.#note('warning', missing);
      this.#replay.play();
    } catch (error) {
      this.#status('failed', `${missing} The recorded run could not be loaded either: ${messageOf(error)}.`);
    }
  }

  /** In a replay nothing can be changed: says so. */
  #isRecording(): boolean {
    if (!this.#replay) return false;
    this.#note('info', 'This is a recording: it can be played, paused and searched, but not changed.');
    return true;
  }

  #followHash(): void {
    if (location.hash === toHash(this.#state.settings.value)) return;
    const { settings, problems } = fromHash(location.hash);
    for (const problem of problems) this.#note('warning', problem);
    void this.configure(settings);
  }

  #setSettings(settings: Settings): void {
    this.#emit({ kind: 'settings', atMs: this.#nowMs(), settings: { ...settings } });
    history.replaceState(null, '', `${location.pathname}${location.search}${toHash(settings)}`);
  }

  #suggest(): void {
    this.#state.suggestions.value = suggest(this.#state.settings.value.model, this.#chat.messages);
  }

  #newConversation(): Conversation {
    return new Conversation(`chat-${++this.#conversations}`);
  }

  #tools() {
    return { emit: (event: SessionEvent) => this.#emit(event), now: () => this.#nowMs() };
  }

  #emit(event: SessionEvent): void {
    if (!this.#replay) this.#log.add(event);
    applyEvent(this.#state, event);
  }

  #status(phase: 'ready' | 'busy' | 'failed', message: string): void {
    this.#emit({ kind: 'status', atMs: this.#nowMs(), phase, message, progress: null });
  }

  #note(level: 'info' | 'warning', message: string): void {
    this.#emit({ kind: 'note', atMs: this.#nowMs(), level, message });
  }

  #nowMs(): number {
    return this.#replay ? this.#replay.nowMs() : systemClock.now() - this.#originMs;
  }
}

function modelUrl(text: string): string {
  const url = text.trim();
  if (!/^https?:\/\/\S+$/.test(url)) {
    throw new Error(
      `'${url}' is no address: wanted one of a Hugging Face model directory, such as https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct/resolve/main`,
    );
  }
  return url.replace(/\/+$/, '');
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
