/** A lesson as data: what it says, what it sets, what there is to do and to see. The stepper shows it. */
import type { SessionActions, SessionState, Settings, TurnView } from '../session/types.ts';

/** What a lesson may look at. Reads signals, so that its marks turn by themselves. */
export interface Seen {
  state: SessionState;
  /** Turns of the user's conversation that began since the lesson did. */
  turns: readonly TurnView[];
  sinceMs: number;
}

export interface Task {
  /** What the reader does, as an imperative; the button's words. */
  todo: string;
  run(actions: SessionActions, state: SessionState): Promise<void>;
  /** What to look for, and where. */
  see: string;
  /** True once it was to be seen. */
  happened(seen: Seen): boolean;
}

export interface Lesson {
  /** From 1 on. */
  number: number;
  title: string;
  /** A few sentences. */
  text: string;
  /** Set when the lesson begins; what it leaves out goes to the page's default, so that lessons do not inherit. */
  settings: Partial<Settings>;
  tasks: readonly [Task, ...Task[]];
  question: string;
  answer: string;
}
