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
