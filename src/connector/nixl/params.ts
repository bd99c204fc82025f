/**
 * What kv_transfer_params promise, and how much of it a prompt can use. Pure functions over the wire's fields; where the
 * rules are stricter than vLLM's, it is because vLLM's can give wrong KV (a rewritten history, a trimmed suffix).
 */
import type { KvCacheSpec } from '../../config/engine.ts';
import type { KvTransferParams } from '../../config/kv-transfer.ts';
import { commonPrefixLength, type TokenIds } from '../../config/token-ids.ts';
import { byGroup } from '../../engine/block-table.ts';
import { skippedBlocks } from '../../engine/kv-cache-spec.ts';
import { type BlockId, type BlockIds, NULL_BLOCK } from '../../engine/types.ts';
import type { BlockPair, RemoteAddress } from '../../transport/types.ts';
import type { SendRequest } from './metadata.ts';

export type RemoteRequest = RemoteAddress & { requestId: string };

/** vLLM's test of roles: a request with do_remote_decode runs on its P node. */
export type RequestRole = 'prefill' | 'decode';

/** null: the request takes no part in any transfer. */
export function roleOf(params: KvTransferParams | null): RequestRole | null {
  if (params?.do_remote_decode) return 'prefill';
  return params?.do_remote_prefill ? 'decode' : null;
}

/** Whom to ask for the blocks; or the first of the four required keys that is missing. */
export function remoteRequest(params: KvTransferParams): RemoteRequest | { missing: string } {
  const {
    remote_engine_id: engineId,
    remote_request_id: requestId,
    remote_host: host,
    remote_port: port,
  } = params;
  if (engineId == null) return { missing: 'remote_engine_id' };
  if (requestId == null) return { missing: 'remote_request_id' };
  if (host == null) return { missing: 'remote_host' };
  if (port == null) return { missing: 'remote_port' };
  return { engineId, host, port, requestId };
}

/**
 * All the tokens of the hold that the parameters name, as they tell them; without a word, the prompt's own. Nobody but the
 * holder can know whether it is so.
 */
export function toldTokens(
  { remote_token_ids: told, remote_num_tokens: numTokens }: KvTransferParams,
  promptTokenIds: TokenIds,
): { tokenIds: TokenIds; numTokens: number } {
  if (told) return { tokenIds: told, numTokens: told.length };
  return { tokenIds: promptTokenIds, numTokens: numTokens ?? promptTokenIds.length };
}

/** The blocks are offered before they exist: D names them by their place in the sequence. */
export const offersStream = (params: KvTransferParams): boolean =>
  params.do_remote_prefill && params.streamed === true;

export function offersBlocks(params: KvTransferParams): boolean {
  if (offersStream(params)) return true;
  return (params.remote_block_ids ?? []).some((ids) => ids.length > 0);
}

export const missing = (key: string): string => `invalid kv_transfer_params: ${key} is missing`;

export interface UsableTokens {
  /** Tokens from the start of the prompt whose KV the holder has. */
  tokens: number;
  /** What ends them before the prompt and the holder's tokens do; null when nothing does. */
  limit: string | null;
}

export interface BlockRules {
  blockSize: number;
  /** By KV cache group. */
  groups: readonly KvCacheSpec[];
}

/**
 * The holder's blocks as a positional table. Of a windowed group the parameters name the last ones alone, as vLLM's do: what
 * comes before them is null.
 */
export function remoteTable(
  { remote_block_ids: lists, remote_num_tokens: numTokens }: KvTransferParams,
  promptTokenIds: TokenIds,
  { blockSize, groups }: BlockRules,
): BlockId[][] {
  const blocks = Math.ceil((numTokens ?? promptTokenIds.length) / blockSize);
  // No more is looked at: what the parameters say may be of any size.
  const usable = Math.ceil(promptTokenIds.length / blockSize);
  return byGroup(lists ?? [], (ids, group) => {
    if (groups[group]?.kind !== 'sliding') return ids;
    const passed = Math.min(Math.max(0, blocks - ids.length), usable);
    return [...new Array<BlockId>(passed).fill(NULL_BLOCK), ...ids];
  });
}

/**
 * Tokens of the prompt that the remote blocks may stand for, of which the first numLocalTokens are here. With the token check
 * no token beyond the first one that differs; without it vLLM's rule, which takes the caller's word. None when a windowed
 * group's window does not end there too: what it saw further back is gone, and the other groups alone are of no use.
 */
export function usableTokens(
  params: KvTransferParams,
  promptTokenIds: TokenIds,
  numLocalTokens: number,
  { blockSize, groups, tokenCheck }: BlockRules & { tokenCheck: boolean },
): UsableTokens {
  // The router gave P the same prompt.
  if (offersStream(params)) return { tokens: promptTokenIds.length, limit: null };
  const nothing = (limit: string): UsableTokens => ({ tokens: 0, limit });
  const { remote_num_tokens: numTokens, remote_token_ids: remote } = params;
  if (tokenCheck && numTokens == null) return nothing(missing('remote_num_tokens'));
  if (tokenCheck && !remote) return nothing(missing('remote_token_ids'));
  // vLLM takes all of the prompt from P, whatever it says.
  const all = !tokenCheck && params.do_remote_prefill;
  const promised = all ? promptTokenIds.length : Math.min(numTokens ?? 0, promptTokenIds.length);
  const same = tokenCheck ? commonPrefixLength(promptTokenIds, remote!) : promised;
  const tokens = Math.min(promised, same);
  const limit = same < promised ? `first differing token at ${same}` : null;
  const table = remoteTable(params, promptTokenIds, { blockSize, groups });
  if (table.length !== groups.length) {
    const found = `${table.length} lists of remote blocks, and there are ${groups.length} KV cache groups`;
    return nothing(`invalid kv_transfer_params: ${found}`);
  }
  const blocks = Math.ceil(tokens / blockSize);
  const short = table.find((ids) => ids.length < blocks);
  if (short) {
    return nothing(
      `invalid kv_transfer_params: ${short.length} remote blocks for ${tokens} tokens need ${blocks}`,
    );
  }
  const gone = table.findIndex((ids, group) => {
    const skipped = skippedBlocks(groups[group]!, Math.min(tokens, promptTokenIds.length - 1), blockSize);
    const first = Math.max(skipped, Math.floor(numLocalTokens / blockSize));
    const at = ids.indexOf(NULL_BLOCK, first);
    return at >= 0 && at < blocks;
  });
  if (gone < 0) return { tokens, limit };
  const window = `the window of KV cache group ${gone} that ends at token ${tokens} is gone at the holder`;
  return nothing(limit ? `${window} (${limit})` : window);
}

/**
 * Block i of the sequence there with block i here, for the blocks from numLocalTokens up to numTokens. Null blocks, here
 * or there, are outside of what the group keeps and are not fetched. 'indexes': the blocks there are named by their i.
 */
export function pairBlocks(
  remoteIds: BlockIds | 'indexes',
  localIds: BlockIds,
  numLocalTokens: number,
  numTokens: number,
  blockSize: number,
): BlockPair[] {
  const first = Math.floor(numLocalTokens / blockSize);
  const end = Math.ceil(numTokens / blockSize);
  const pairs: BlockPair[] = [];
  localIds.forEach((ids, group) => {
    for (let i = first; i < Math.min(end, ids.length); i++) {
      const local = ids[i]!;
      const remote = remoteIds === 'indexes' ? i : remoteIds[group]?.[i];
      // A place of a stream is no id: 0 is its first block.
      const isNull = remoteIds !== 'indexes' && remote === NULL_BLOCK;
      if (remote !== undefined && !isNull && local !== NULL_BLOCK) pairs.push({ group, remote, local });
    }
  });
  return pairs;
}

/** ceil(numTokens / blockSize) blocks a group, in the sequence's order, null where a window has passed. */
export function promptBlocks(blockIds: BlockIds, numTokens: number, blockSize: number): BlockIds {
  const blocks = Math.ceil(numTokens / blockSize);
  // Tables are replaced, never changed: whose length is right is taken as it is.
  return blockIds.every(({ length }) => length <= blocks)
    ? blockIds
    : byGroup(blockIds, (ids) => ids.slice(0, blocks));
}

/** What names a hold for its reader: blocks by group, without the nulls before a window. */
export function paramsOf(
  requestId: string,
  { blockIds, tokenIds, deadline, direction }: SendRequest,
  { engineId, host, port }: RemoteAddress,
): KvTransferParams {
  const isPrefill = direction === 'prefill';
  return {
    do_remote_prefill: isPrefill,
    do_remote_decode: !isPrefill,
    remote_block_ids: byGroup(blockIds, (ids) => ids.slice(ids.lastIndexOf(NULL_BLOCK) + 1)),
    remote_engine_id: engineId,
    remote_request_id: requestId,
    remote_host: host,
    remote_port: port,
    tp_size: 1,
    remote_num_tokens: tokenIds.length,
    remote_blocks_expiry_time: isPrefill ? null : deadline / 1000,
    remote_token_ids: tokenIds,
  };
}
