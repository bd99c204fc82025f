/** A lesson as data: what it says, what it sets, and its steps: predict, run, see. The stepper shows it. */
import type { SessionActions, SessionState, Settings, TurnView } from '../session/types.ts';

/** What a lesson may look at. Reads signals, so that its marks turn by themselves. */
export interface Seen {
  state: SessionState;
  /** Turns of the user's conversation that began since the lesson did. */
  turns: readonly TurnView[];
  sinceMs: number;
  /** The turns as they were when the last step was seen: their conversation may have ended since. */
  earlier: readonly TurnView[];
}

/** What a step points at: CSS selectors of the page's objects. */
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
  /** Which of the choices came true; null: not to be said. Asked once the step was seen. */
  cameTrue(seen: Seen): number | null;
}

export interface Task {
  predict: Prediction;
  /** What the reader does, as an imperative; the button's words. */
  todo: string;
  run(actions: SessionActions, state: SessionState): Promise<void>;
  /** What it shows, once it was seen. */
  see: string;
  /** What this run measured, in a sentence; null: nothing. Asked once the step was seen. */
  figures?(seen: Seen): string | null;
  /** Where to look. */
  look: PageObject;
  /** True once it was to be seen. */
  happened(seen: Seen): boolean;
}

export interface LessonHead {
  /** From 1 on. */
  number: number;
  title: string;
  /** Set when the lesson begins; what it leaves out goes to the page's default, so that lessons do not inherit. */
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
