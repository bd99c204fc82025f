/**
 * The stall: one user gets an answer while another pastes a long text. Runs three times on one engine that does both and
 * three times on P and D, one after the other, and records when each token came.
 */
import { messageOf } from '../../../../src/errors.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import type { Stall, StallRun, StallSide } from '../../../../src/recording/experiments.ts';
import type { GeneratedToken } from '../../../../src/router/turn-types.ts';
import { type Measuring, RUNS } from './measuring.ts';

const SIDES = ['alone', 'split'] as const;
type SideName = (typeof SIDES)[number];
const MODES = { alone: 'monolithic', split: 'unidirectional' } as const;

/** The first user's question: a pause in a count is easy to see. */
const QUESTION = 'Count from 10 to 50.';
/** The second user pastes when the first has this many tokens. */
const PASTE_AFTER = 8;
/** Answers end at an end token, or here. */
const MOST_TOKENS = { first: 64, second: 8 };

/** Twice this text is more than 400 tokens of the shipped model, in words that it knows. */
const STORIES = [
  ...['Gus lived in Oslo with a green bear.', 'One day they walked to the river.', 'The wind was strong.'],
  ...[
    'Under a tree Gus found a lamp.',
    'The bear did not like the lamp.',
    'Soon Nora came and wanted the lamp.',
  ],
  ...[
    'Gus gave the lamp to Nora.',
    'They ate soup and went home to Oslo.',
    'Finn lived in Lima with a red fox.',
  ],
  ...[
    'One morning they went to the market.',
    'There was snow all around.',
    'Near the door Finn found a key.',
  ],
  ...['Then Ivan came and asked for the key.', 'Finn kept the key.', 'They ate bread and went home to Lima.'],
  ...[
    'Zoe lived in Cairo with a blue owl.',
    'One night they ran to the tower.',
    'By the water Zoe found a map.',
  ],
  ...['The owl did not like the map.', 'Soon Max came and wanted the map.', 'Zoe gave the map to Max.'],
  ...['Tara lived in Rome with a gold horse.', 'One day they went to the garden.', 'Then Quinn came.'],
  ...['Tara found a drum.', 'The horse did not like the drum.', 'They ate rice and went home to Rome.'],
].join(' ');
const PASTED = `${STORIES} ${STORIES} What did Zoe find?`;

interface Pasted {
  atMs: number;
  firstMs: number;
  promptTokens: number;
}

/** Leaves the engines empty and in the last side's mode; configure them afterwards. Throws the engines' errors. */
export async function runStall({ engines, settings, signal, emit, now }: Measuring): Promise<void> {
  const idle: StallSide = { phase: 'waiting', runs: [], pieces: [] };
  let stall: Stall = {
    startedMs: now(),
    question: QUESTION,
    pastedTokens: 0,
    alone: idle,
    split: idle,
    error: null,
  };
  const show = (change: Partial<Stall>) => {
    stall = { ...stall, ...change };
    emit({ kind: 'stall', atMs: now(), stall });
  };
  show({});
  try {
    for (let run = 0; run < RUNS; run++) {
      // Alternates, so that other load on the machine affects both sides equally.
      for (const side of run % 2 === 0 ? SIDES : SIDES.toReversed()) await runSide(side);
    }
    for (const side of SIDES) show({ [side]: { ...stall[side], phase: 'done' } });
  } catch (error) {
    show({ error: messageOf(error) });
    throw error;
  }

  async function runSide(name: SideName): Promise<void> {
    const showSide = (change: Partial<StallSide>) => show({ [name]: { ...stall[name], ...change } });
    showSide({ phase: 'running' });
    // With two D, "one engine" would be two: each user would have one.
    const onePair = { ...settings, prefill: 1, decode: 1 };
    await engines.configure(onePair, { mode: MODES[name], prefixCaching: false, costProfile: null });
    const tokens: GeneratedToken[] = [];
    let pasted: Promise<Pasted> | null = null;
    try {
      for await (const token of ask('stall-first', QUESTION, MOST_TOKENS.first)) {
        tokens.push(token);
        if (tokens.length === PASTE_AFTER) {
          pasted = paste();
          // It may be refused before it is awaited.
          pasted.catch(() => {});
        }
      }
      // Without a token after the paste there is no pause to measure.
      if (!pasted || tokens.length === PASTE_AFTER)
        throw new Error('The first answer ended before anything could be pasted.');
      const { atMs, firstMs, promptTokens } = await pasted;
      const run: StallRun = {
        tokensMs: tokens.map((token) => token.atMs - atMs),
        pastedFirstMs: firstMs - atMs,
      };
      show({ pastedTokens: promptTokens });
      showSide({
        phase: 'waiting',
        runs: [...stall[name].runs, run],
        pieces: tokens.map(({ text }) => text),
      });
    } finally {
      // The pasted request must not overlap the next run.
      await pasted?.catch(() => {});
      for (const conversation of ['stall-first', 'stall-second'])
        await engines.running?.recorder.endConversation(conversation).catch(() => {});
    }
  }

  async function paste(): Promise<Pasted> {
    const atMs = systemClock.now();
    let firstMs: number | null = null;
    for await (const token of ask('stall-second', PASTED, MOST_TOKENS.second)) {
      firstMs ??= token.atMs;
      if (token.final) return { atMs, firstMs, promptTokens: token.final.promptTokenIds.length };
    }
    signal.throwIfAborted();
    throw new Error('The pasted text got no answer.');
  }

  function ask(conversationId: string, content: string, maxTokens: number): AsyncIterable<GeneratedToken> {
    const sampling = { maxTokens, temperature: 0 };
    const request = { conversationId, messages: [{ role: 'user', content }], sampling, signal };
    return engines.running!.recorder.generate(request, { question: content, edited: false });
  }
}
