/** A lesson as data: its text, its settings and its steps (predict, run, see). */
import type { SessionActions, SessionState, Settings, TurnView } from '../session/types.ts';

/** What a lesson can check. `state` holds signals, so steps are marked as seen without polling. */
export interface Seen {
  state: SessionState;
  /** Turns of the user's conversations that began after the lesson did. */
  turns: readonly TurnView[];
  sinceMs: number;
  /** `turns` as they were when the previous step was seen; their conversation may have ended since. */
  earlier: readonly TurnView[];
}

/** What a step can point at, with its CSS selector. */
export const OBJECTS = {
  'the blocks of P and D': '.engines .stage',
  'the race': '.race',
  'the stall': '.stall',
  'the chat': '.chat',
} as const;
export type PageObject = keyof typeof OBJECTS;

export interface Prediction {
  ask: string;
  choices: readonly [string, string, ...string[]];
  /** Index of the choice that came true; null if it cannot be told. Called when the step was seen. */
  cameTrue(seen: Seen): number | null;
}

export interface Task {
  predict: Prediction;
  /** The button's label, an imperative. */
  todo: string;
  run(actions: SessionActions, state: SessionState): Promise<void>;
  /** The explanation, shown when the step was seen. */
  see: string;
  /** What this run measured, in a sentence; null: nothing. Called when the step was seen. */
  figures?(seen: Seen): string | null;
  /** Where to look. */
  look: PageObject;
  /** True once the step's result can be seen. */
  happened(seen: Seen): boolean;
}

export interface LessonHead {
  /** From 1. */
  number: number;
  title: string;
  /** Set when the lesson begins. Settings not listed return to the page's defaults, so lessons inherit nothing. */
  settings: Partial<Settings>;
}

export interface LessonContent {
  /** A few sentences. */
  text: string;
  tasks: readonly [Task, ...Task[]];
  question: string;
  answer: string;
}

export interface Lesson extends LessonHead, LessonContent {}
