/** Conversations to serve, before anything is answered. What the assistant says is always generated. */

export interface Message {
  role: string;
  content: string;
}

/** A conversation of text. Each turn adds its messages to the history, and the assistant answers. */
export interface TextConversation {
  kind: 'text';
  id: string;
  turns: readonly (readonly Message[])[];
}

/** A conversation of token ids, for models that were not trained on text. Each turn adds its ids. */
export interface TokenConversation {
  kind: 'tokens';
  id: string;
  turns: readonly (readonly number[])[];
  /** Tokens to generate in each turn, exactly. */
  outputTokens: number;
}

export type Conversation = TextConversation | TokenConversation;

/** A conversation from a file, its answers included. */
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
  /** Tokens that it adds; text is counted by the tokenizer, without the chat template's tokens. */
  inputTokens: number;
  /** Tokens of the answer to generate; null: no length is given. */
  outputTokens: number | null;
}

/** A conversation of a benchmark; each turn's answer has a length of its own. */
export interface BenchConversation {
  id: string;
  turns: readonly BenchTurn[];
}

/** Converts between a model's text and its tokens. */
export interface Vocabulary {
  /** Ids are below it. */
  size: number;
  encode(text: string): readonly number[];
  decode(tokenIds: readonly number[]): string;
}
