/** Collects the NIXL connector's metadata for the next step. */
import type { HoldRef } from '../../transport/types.ts';
import type { ComputedBlocks, NixlMetadata, RecvRequest, SendRequest } from './metadata.ts';
import type { RemoteRequest } from './params.ts';

const NO_MAP = new Map<string, never>();
const NO_SET: ReadonlySet<string> = new Set();

/** `own` if it is not empty, else the shared empty container `none`. */
const nonEmptyOr = <T extends { readonly size: number }>(own: T, none: T): T => (own.size > 0 ? own : none);

/** Fields cover one step. take() replaces non-empty containers, so those handed out never change. */
export class PendingMetadata {
  reqsToRecv = new Map<string, RecvRequest>();
  reqsToSend = new Map<string, SendRequest>();
  reqsInBatch = new Set<string>();
  reqsNotProcessed = new Set<string>();
  computed = new Map<string, ComputedBlocks>();
  reqsToCancel = new Set<string>();
  refused: { remote: RemoteRequest; hold: HoldRef }[] = [];

  get isEmpty(): boolean {
    const begun = this.reqsToRecv.size + this.reqsInBatch.size + this.computed.size;
    const ended = this.reqsToSend.size + this.reqsNotProcessed.size + this.reqsToCancel.size;
    return begun + ended + this.refused.length === 0;
  }

  take(heartbeats: NixlMetadata['heartbeats']): NixlMetadata {
    const metadata = {
      reqsToRecv: nonEmptyOr<NixlMetadata['reqsToRecv']>(this.reqsToRecv, NO_MAP),
      reqsToSend: nonEmptyOr<NixlMetadata['reqsToSend']>(this.reqsToSend, NO_MAP),
      reqsInBatch: nonEmptyOr<ReadonlySet<string>>(this.reqsInBatch, NO_SET),
      reqsNotProcessed: nonEmptyOr<ReadonlySet<string>>(this.reqsNotProcessed, NO_SET),
      computed: nonEmptyOr<NixlMetadata['computed']>(this.computed, NO_MAP),
      reqsToCancel: nonEmptyOr<ReadonlySet<string>>(this.reqsToCancel, NO_SET),
      refused: this.refused.length > 0 ? this.refused : [],
      heartbeats,
    };
    // In most steps, most containers are empty and can be reused.
    if (this.reqsToRecv.size > 0) this.reqsToRecv = new Map();
    if (this.reqsToSend.size > 0) this.reqsToSend = new Map();
    if (this.reqsInBatch.size > 0) this.reqsInBatch = new Set();
    if (this.reqsNotProcessed.size > 0) this.reqsNotProcessed = new Set();
    if (this.computed.size > 0) this.computed = new Map();
    if (this.reqsToCancel.size > 0) this.reqsToCancel = new Set();
    if (this.refused.length > 0) this.refused = [];
    return metadata;
  }
}
