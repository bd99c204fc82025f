/**
 * kv_transfer_params of a request to an engine's port, before the engine sees them: their shape, and whether they name one
 * of its peers. Whether anything is held as they say is for the holder to find (src/connector/holds.ts), who tells nobody.
 */
import { type KvTransferParams, kvTransferParamsSchema } from '../config/kv-transfer.ts';
import type { ThreadEngine } from '../fleet/thread-engine.ts';
import { HttpError } from './http-error.ts';

const field = (key: string) => `kv_transfer_params.${key}`;

/** `peers`: the engines that this one can read from. Throws HttpError 400. */
export function checkKvParams(
  given: Record<string, unknown>,
  peers: readonly ThreadEngine[],
): KvTransferParams {
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
  checkRemote(params, peers);
  return params;
}

function checkRemote(params: KvTransferParams, peers: readonly ThreadEngine[]): void {
  const { remote_engine_id: engineId, remote_port: port } = params;
  const blockIds = params.remote_block_ids ?? [];
  if (engineId == null) {
    if (!blockIds.some((ids) => ids.length > 0)) return;
    throw new HttpError(
      400,
      'kv_transfer_params has remote_block_ids without a remote_engine_id: say whose they are',
      field('remote_engine_id'),
    );
  }
  const peer = peers.find((engine) => engine.engineId === engineId);
  const known = peers.map((engine) => engine.engineId).join(', ');
  if (!peer) {
    throw new HttpError(
      400,
      `kv_transfer_params.remote_engine_id is '${engineId}': this engine reads from ${known}`,
      field('remote_engine_id'),
    );
  }
  if (port != null && port !== peer.address.port) {
    throw new HttpError(
      400,
      `kv_transfer_params.remote_port is ${port}: ${engineId} is at ${peer.address.port}`,
      field('remote_port'),
    );
  }
}
