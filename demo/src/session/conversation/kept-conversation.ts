/** Keeps the conversation in the tab's session storage across reloads: its text, and the tokens that its KV belongs to. */
import { z } from 'zod';
import type { ResumedTurn } from '../../../../src/recording/events.ts';
import type { Message } from '../../../../src/workload/types.ts';
import type { Settings } from '../settings.ts';

const KEY = 'kvferry conversation';

export interface KeptConversation {
  id: string;
  messages: readonly Message[];
  /** Prompt and answer of the last turn. */
  tokenIds: readonly number[];
  turns: readonly ResumedTurn[];
}

const keptSchema = z.object({
  /** The model whose vocabulary the tokens are from. */
  model: z.string(),
  id: z.string(),
  messages: z.array(z.object({ role: z.string(), content: z.string() })),
  tokenIds: z.array(z.number().int().nonnegative()).min(1),
  turns: z.array(z.unknown()),
});

/** Keeps a conversation. If storage is denied or too small, nothing is kept. */
export function keepConversation({ model }: Settings, conversation: KeptConversation): void {
  try {
    sessionStorage.setItem(KEY, JSON.stringify({ model, ...conversation }));
  } catch {
    forgetConversation();
  }
}

/** The kept conversation; null if there is none of this model that this version of the page can read. */
export async function keptConversation({ model }: Settings): Promise<KeptConversation | null> {
  try {
    const kept = keptSchema.parse(JSON.parse(sessionStorage.getItem(KEY) ?? 'null'));
    if (kept.model !== model) return null;
    const { sessionEventSchema } = await import('../../../../src/recording/events.ts');
    const event = { kind: 'conversation_resumed', atMs: 0, conversation: kept.id, turns: kept.turns };
    const resumed = sessionEventSchema.parse(event);
    return resumed.kind === 'conversation_resumed' ? { ...kept, turns: resumed.turns } : null;
  } catch {
    return null;
  }
}

export function forgetConversation(): void {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // Without storage nothing was kept.
  }
}
