import { expect, test } from 'vitest';
import { checkKvParams } from '../../src/server/kv-params.ts';

test("a client cannot ask an engine for the router's own hand-over", () => {
  for (const role of ['do_remote_prefill', 'do_remote_decode']) {
    const params = { [role]: true, streamed: true, remote_engine_id: 'prefill-0', remote_request_id: 'x' };
    expect(() => checkKvParams(params, [])).toThrow(
      expect.objectContaining({
        status: 400,
        message: expect.stringMatching(/kv_transfer_params.streamed .* --handover streamed/),
      }),
    );
  }
  expect(checkKvParams({ do_remote_decode: true }, [])).toMatchObject({ do_remote_decode: true });
});
