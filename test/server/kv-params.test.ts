import { expect, test } from 'vitest';
import { checkKvParams } from '../../src/server/kv-params.ts';

test("a client cannot ask an engine for the router's own hand-over", async () => {
  for (const role of ['do_remote_prefill', 'do_remote_decode']) {
    const params = { [role]: true, streamed: true, remote_engine_id: 'prefill-0', remote_request_id: 'x' };
    await expect(checkKvParams(params, [])).rejects.toMatchObject({
      status: 400,
      message: expect.stringMatching(/kv_transfer_params.streamed .* --handover streamed/),
    });
  }
  await expect(checkKvParams({ do_remote_decode: true }, [])).resolves.toMatchObject({
    do_remote_decode: true,
  });
});
