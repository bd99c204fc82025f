/**
 * Checks kv_transfer_params of a request to an engine's port before the engine sees them: their schema, and whether they name
 * one of its peers. Whether the named blocks are held is checked by the holder only (src/connector/nixl/holds.ts), which does
 * not reveal the result.
 */
import { isStoreHandover } from '../../config/connectors.ts';
import { type KvTransferParams, kvTransferParamsSchema } from '../../config/kv-transfer.ts';
import type { ThreadEngine } from '../../fleet/thread-engine.ts';
import type { HostNames } from '../host-names.ts';
import { HttpError } from '../http/http-error.ts';

const field = (key: string) => `kv_transfer_params.${key}`;

export interface ParamsRule {
  /** Engines that this engine can read from. */
  peers: readonly ThreadEngine[];
  names: HostNames;
  /** The load failure policy is 'recompute': tokens that cannot be loaded are computed. */
  recompute: boolean;
}

/** Returns the params in the form that the engine expects. Throws HttpError 400. */
export function checkKvParams(fields: Record<string, unknown>, rule: ParamsRule): KvTransferParams {
  const result = kvTransferParamsSchema.safeParse(fields);
  if (!result.success) {
    const { path, message } = result.error.issues[0]!;
    const name = field(path.map(String).join('.'));
    throw new HttpError(400, `${name}: ${message}`, name);
  }
  const params = result.data;
  if (params.do_remote_decode && params.do_remote_prefill) {
    throw new HttpError(
      400,
      'kv_transfer_params has both do_remote_decode and do_remote_prefill: an engine either prefills or decodes a request; set only one',
      field('do_remote_decode'),
    );
  }
  if (params.streamed) {
    throw new HttpError(
      400,
      "kv_transfer_params.streamed is for the router's own use: leave it out, or use the router's port of a server started with --handover streamed",
      field('streamed'),
    );
  }
  return checkRemote(params, rule);
}

/** Replaces remote_host and remote_port by the named peer's own address, because a proxy may have rewritten them. */
export function atPeer<P extends KvTransferParams>(params: P, peers: readonly ThreadEngine[]): P {
  const peer = peers.find((engine) => engine.engineId === params.remote_engine_id);
  if (!peer) return params;
  const { host, port } = peer.address;
  return {
    ...params,
    ...(params.remote_host != null && { remote_host: host }),
    ...(params.remote_port != null && { remote_port: port }),
  };
}

/** The name of an engine's seat: its id without the number of restarts (decode-0.2 → decode-0). */
const seatNameOf = (engineId: string): string => engineId.replace(/\.\d+$/, '');

/** Removes the remote blocks: the engine that held them has ended. */
const withoutRemote = (params: KvTransferParams): KvTransferParams => ({
  ...params,
  ...{ remote_block_ids: null, remote_engine_id: null, remote_request_id: null, remote_token_ids: null },
  ...{ remote_num_tokens: null, remote_blocks_expiry_time: null },
});

function checkRemote(params: KvTransferParams, { peers, names, recompute }: ParamsRule): KvTransferParams {
  // The store finds blocks by their hashes, whichever engine saved them.
  if (isStoreHandover(params)) return params;
  const { remote_engine_id: engineId, remote_host: host, remote_port: port } = params;
  const blockIds = params.remote_block_ids ?? [];
  const refuse = (message: string, key: string): never => {
    throw new HttpError(400, message, field(key));
  };
  const hint = 'if it is another name of this machine, give --allowed-hosts';
  if (engineId == null) {
    // Nothing is read yet, but remote_host is returned for the other engine, so it is rejected before anything is computed.
    if (host != null && !names.has(null, host))
      refuse(
        `kv_transfer_params.remote_host is '${host}', which is not this machine; ${hint}`,
        'remote_host',
      );
    if (!blockIds.some((ids) => ids.length > 0)) return params;
    const found = 'kv_transfer_params has remote_block_ids without a remote_engine_id';
    return refuse(`${found}: give the engine that holds them`, 'remote_engine_id');
  }
  const peer = peers.find((engine) => engine.engineId === engineId);
  if (!peer) {
    const now = peers.find((engine) => seatNameOf(engine.engineId) === seatNameOf(engineId));
    if (now && recompute) return withoutRemote(params);
    const known = peers.map((engine) => engine.engineId).join(', ');
    const found = `kv_transfer_params.remote_engine_id is '${engineId}'`;
    return refuse(
      now
        ? `${found}, which was restarted as ${now.engineId} and lost its blocks: send the request without the remote_ fields`
        : `${found}: this engine can read only from ${known}`,
      'remote_engine_id',
    );
  }
  if (port != null && port !== peer.address.port)
    refuse(
      `kv_transfer_params.remote_port is ${port}: wanted the port of ${engineId}, ${peer.address.port}`,
      'remote_port',
    );
  if (host != null && host !== peer.address.host && !names.has(seatNameOf(engineId), host))
    refuse(
      `kv_transfer_params.remote_host is '${host}': wanted the host of ${engineId}, '${peer.address.host}'; ${hint}`,
      'remote_host',
    );
  return atPeer(params, peers);
}
