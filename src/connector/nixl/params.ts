/**
 * Interprets kv_transfer_params: what they offer, and how much of it a prompt can use. Pure functions of the wire fields. The
 * rules are stricter than vLLM's where vLLM's can give wrong KV (rewritten history, trimmed suffix).
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

/** As in vLLM, a request with do_remote_decode runs on the P node. */
export type RequestRole = 'prefill' | 'decode';

/** null if the request takes part in no transfer. */
export function roleOf(params: KvTransferParams | null): RequestRole | null {
  if (params?.do_remote_decode) return 'prefill';
  return params?.do_remote_prefill ? 'decode' : null;
}

/** The holder to ask for the blocks, or the first of the four required keys that is missing. */
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
 * All tokens of the named hold, according to the parameters. Default: the prompt. Only the holder can know whether this is
 * true.
 */
export function namedTokens(
  { remote_token_ids: listed, remote_num_tokens: numTokens }: KvTransferParams,
  promptTokenIds: TokenIds,
): { tokenIds: TokenIds; numTokens: number } {
  if (listed) return { tokenIds: listed, numTokens: listed.length };
  return { tokenIds: promptTokenIds, numTokens: numTokens ?? promptTokenIds.length };
}

/** Whether blocks are offered before they exist. D then names them by their index in the sequence. */
export const offersStream = (params: KvTransferParams): boolean =>
  params.do_remote_prefill && params.streamed === true;

export function offersBlocks(params: KvTransferParams): boolean {
  if (offersStream(params)) return true;
  return (params.remote_block_ids ?? []).some((ids) => ids.length > 0);
}

export const missing = (key: string): string => `invalid kv_transfer_params: ${key} is missing`;

export interface UsableTokens {
  /** Leading prompt tokens whose KV the holder has. */
  tokens: number;
  /** Why there are not more, other than the length of the prompt or of the hold; else null. */
  limit: string | null;
}

export interface BlockRules {
  blockSize: number;
  /** By KV cache group. */
  groups: readonly KvCacheSpec[];
}

/**
 * The holder's blocks as a positional table. For a windowed group, the parameters list only the last blocks, as in vLLM;
 * earlier ones are null.
 */
export function remoteTable(
  { remote_block_ids: lists, remote_num_tokens: numTokens }: KvTransferParams,
  promptTokenIds: TokenIds,
  { blockSize, groups }: BlockRules,
): BlockId[][] {
  const blocks = Math.ceil((numTokens ?? promptTokenIds.length) / blockSize);
  // Bounds the table: the parameters may claim any size.
  const usable = Math.ceil(promptTokenIds.length / blockSize);
  return byGroup(lists ?? [], (ids, group) => {
    if (groups[group]?.kind !== 'sliding') return ids;
    const passed = Math.min(Math.max(0, blocks - ids.length), usable);
    return [...new Array<BlockId>(passed).fill(NULL_BLOCK), ...ids];
  });
}

/**
 * How many prompt tokens the remote blocks can provide, including the first numLocalTokens, which are here already. With the
 * token check, they end at the first differing token; without it, the caller is trusted, as in vLLM. None if a windowed group
 * lacks the window that ends there: those blocks are gone, and the other groups alone are useless.
 */
export function usableTokens(
  params: KvTransferParams,
  promptTokenIds: TokenIds,
  numLocalTokens: number,
  { blockSize, groups, tokenCheck }: BlockRules & { tokenCheck: boolean },
): UsableTokens {
  // For a stream, the router has sent P the same prompt.
  if (offersStream(params)) return { tokens: promptTokenIds.length, limit: null };
  const none = (limit: string): UsableTokens => ({ tokens: 0, limit });
  const { remote_num_tokens: numTokens, remote_token_ids: remote } = params;
  if (tokenCheck && numTokens == null) return none(missing('remote_num_tokens'));
  if (tokenCheck && !remote) return none(missing('remote_token_ids'));
  // vLLM takes the whole prompt from P, regardless of remote_num_tokens.
  const all = !tokenCheck && params.do_remote_prefill;
  const promised = all ? promptTokenIds.length : Math.min(numTokens ?? 0, promptTokenIds.length);
  const same = tokenCheck ? commonPrefixLength(promptTokenIds, remote!) : promised;
  const tokens = Math.min(promised, same);
  const limit = same < promised ? `first differing token at ${same}` : null;
  const table = remoteTable(params, promptTokenIds, { blockSize, groups });
  if (table.length !== groups.length) {
    const found = `${table.length} lists of remote blocks for ${groups.length} KV cache groups`;
    return none(`invalid kv_transfer_params: ${found}`);
  }
  const blocks = Math.ceil(tokens / blockSize);
  const short = table.find((ids) => ids.length < blocks);
  if (short) {
    return none(
      `invalid kv_transfer_params: ${short.length} remote blocks, but ${tokens} tokens need ${blocks}`,
    );
  }
  const lostGroup = table.findIndex((ids, group) => {
    const skipped = skippedBlocks(groups[group]!, Math.min(tokens, promptTokenIds.length - 1), blockSize);
    const first = Math.max(skipped, Math.floor(numLocalTokens / blockSize));
    const at = ids.indexOf(NULL_BLOCK, first);
    return at >= 0 && at < blocks;
  });
  if (lostGroup < 0) return { tokens, limit };
  const window = `the window of KV cache group ${lostGroup} that ends at token ${tokens} is gone at the holder`;
  return none(limit ? `${window} (${limit})` : window);
}

/**
 * Pairs block i of the remote sequence with local block i, from the block of numLocalTokens up to numTokens. Null blocks on
 * either side are not kept by their group and are not fetched. 'indexes': remote blocks are named by i, not by id.
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
      // In a stream, 0 is the index of the first block, not the null block.
      const isNull = remoteIds !== 'indexes' && remote === NULL_BLOCK;
      if (remote !== undefined && !isNull && local !== NULL_BLOCK) pairs.push({ group, remote, local });
    }
  });
  return pairs;
}

/** The first ceil(numTokens / blockSize) blocks of each group, in sequence order, null where the window has moved past. */
export function promptBlocks(blockIds: BlockIds, numTokens: number, blockSize: number): BlockIds {
  const blocks = Math.ceil(numTokens / blockSize);
  // Tables are never modified in place, so a table that is short enough can be returned without a copy.
  return blockIds.every(({ length }) => length <= blocks)
    ? blockIds
    : byGroup(blockIds, (ids) => ids.slice(0, blocks));
}

/** The parameters that name a hold for its reader. Blocks are by group, without the nulls before a window. */
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
