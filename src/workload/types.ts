/** Conversations to serve, before anything was answered. What the assistant says is always generated. */

export interface Message {
  role: string;
  content: string;
}

/** A conversation of text. Each turn adds its messages to all that was said, and the assistant answers. */
export interface TextConversation {
  kind: 'text';
  id: string;
  turns: readonly (readonly Message[])[];
}

/** A conversation of token ids, for models without a trained tongue. Each turn adds its ids. */
export interface TokenConversation {
  kind: 'tokens';
  id: string;
  turns: readonly (readonly number[])[];
  /** Tokens to generate each turn, exactly. */
  outputTokens: number;
}

export type Conversation = TextConversation | TokenConversation;

/** A conversation as a file has it, its answers included. */
export interface AnsweredConversation {
  id: string;
  turns: readonly { messages: readonly Message[]; answer: string | null }[];
}

/** What a turn of a benchmark adds to its conversation. */
export type TurnContent =
  | { kind: 'tokens'; tokenIds: readonly number[] }
  | { kind: 'text'; messages: readonly Message[] };

export interface BenchTurn {
  content: TurnContent;
  /** Tokens that it adds; for text as the tokenizer counts them, without the chat template's. */
  inputTokens: number;
  /** Tokens of the answer to generate; null where nobody said how long it should be. */
  outputTokens: number | null;
}

/** A conversation of a benchmark: every turn has its own length of answer. */
export interface BenchConversation {
  id: string;
  turns: readonly BenchTurn[];
}

/** How a model's text and tokens go together. */
export interface Vocabulary {
  /** Ids are below it. */
  size: number;
  encode(text: string): readonly number[];
  decode(tokenIds: readonly number[]): string;
}
