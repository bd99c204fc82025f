/**
 * kv_transfer_params of a request to an engine's port, before the engine sees them: their shape, and whether they name one
 * of its peers. Whether anything is held as they say is for the holder to find (src/connector/holds.ts), who tells nobody.
 */
import { isStoreHandover } from '../config/connectors.ts';
import { type KvTransferParams, kvTransferParamsSchema } from '../config/kv-transfer.ts';
import type { ThreadEngine } from '../fleet/thread-engine.ts';
import type { HostNames } from './host-names.ts';
import { HttpError } from './http-error.ts';

const field = (key: string) => `kv_transfer_params.${key}`;

export interface ParamsRule {
  /** The engines that this one can read from. */
  peers: readonly ThreadEngine[];
  names: HostNames;
  /** What cannot be had is computed: the load failure policy. */
  recompute: boolean;
}

/** As the engine is to have them. Throws HttpError 400. */
export function checkKvParams(given: Record<string, unknown>, rule: ParamsRule): KvTransferParams {
  const result = kvTransferParamsSchema.safeParse(given);
  if (!result.success) {
    const { path, message } = result.error.issues[0]!;
    const name = field(path.map(String).join('.'));
    throw new HttpError(400, `${name}: ${message}`, name);
  }
  const params = result.data;
  if (params.do_remote_decode && params.do_remote_prefill) {
    throw new HttpError(
      400,
      'kv_transfer_params has both do_remote_decode and do_remote_prefill: a request is prefilled here or decoded here',
      field('do_remote_decode'),
    );
  }
  if (params.streamed) {
    throw new HttpError(
      400,
      "kv_transfer_params.streamed is for the router's own use: leave it out, or ask the router's port, started with --handover streamed",
      field('streamed'),
    );
  }
  return checkRemote(params, rule);
}

/** As the engines know the peer that is named, whatever name of this machine, or port, a proxy wrote over its own. */
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

/** An engine's name in its seat, without the number of its life. */
export const seatOf = (engineId: string): string => engineId.replace(/\.\d+$/, '');

/** Asks for nothing any more: what it named went with the engine that held it. */
const withoutRemote = (params: KvTransferParams): KvTransferParams => ({
  ...params,
  ...{ remote_block_ids: null, remote_engine_id: null, remote_request_id: null, remote_token_ids: null },
  ...{ remote_num_tokens: null, remote_blocks_expiry_time: null },
});

function checkRemote(params: KvTransferParams, { peers, names, recompute }: ParamsRule): KvTransferParams {
  // Found by its hashes, whoever put it there and whatever became of it since.
  if (isStoreHandover(params)) return params;
  const { remote_engine_id: engineId, remote_host: host, remote_port: port } = params;
  const blockIds = params.remote_block_ids ?? [];
  const refuse = (message: string, key: string): never => {
    throw new HttpError(400, message, field(key));
  };
  const told = 'other names of this machine are for --allowed-hosts';
  if (engineId == null) {
    // Nothing is read yet, but what is written here comes back for the other engine: it is told before anything is computed.
    if (host != null && !names.has(null, host))
      refuse(
        `kv_transfer_params.remote_host is '${host}', which is not this machine; ${told}`,
        'remote_host',
      );
    if (!blockIds.some((ids) => ids.length > 0)) return params;
    const found = 'kv_transfer_params has remote_block_ids without a remote_engine_id';
    return refuse(`${found}: say whose they are`, 'remote_engine_id');
  }
  const peer = peers.find((engine) => engine.engineId === engineId);
  if (!peer) {
    const now = peers.find((engine) => seatOf(engine.engineId) === seatOf(engineId));
    if (now && recompute) return withoutRemote(params);
    const known = peers.map((engine) => engine.engineId).join(', ');
    const found = `kv_transfer_params.remote_engine_id is '${engineId}'`;
    return refuse(
      now
        ? `${found}, which was started anew as ${now.engineId}, and what it held is gone: send the request without them`
        : `${found}: this engine reads from ${known}`,
      'remote_engine_id',
    );
  }
  if (port != null && port !== peer.address.port)
    refuse(
      `kv_transfer_params.remote_port is ${port}: ${engineId} is at ${peer.address.port}`,
      'remote_port',
    );
  if (host != null && host !== peer.address.host && !names.has(seatOf(engineId), host))
    refuse(
      `kv_transfer_params.remote_host is '${host}': ${engineId} is at '${peer.address.host}', this machine; ${told}`,
      'remote_host',
    );
  return atPeer(params, peers);
}
