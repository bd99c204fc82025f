import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { cannotListen, checkServer, enginePorts } from '../../src/server/http/ports.ts';

const engine = (name: string) => ({
  name,
  role: name.startsWith('p') ? ('prefill' as const) : ('decode' as const),
});
const engines = ['prefill-0', 'prefill-1', 'decode-0', 'decode-1', 'decode-2', 'both-0'].map(engine);

test.each([
  [[8100], [8200], [8100, 8101, 8200, 8201, 8202, 8203]],
  [[0], [8200], [0, 0, 8200, 8201, 8202, 8203]],
  [
    [7, 5],
    [4, 3, 2, 1],
    [7, 5, 4, 3, 2, 1],
  ],
])('engines get ports from --prefill-port %j and --decode-port %j', (prefill, decode, expected) => {
  expect(enginePorts(engines, { prefill, decode })).toEqual(expected);
});

test('a list of ports for another number of engines is refused', () => {
  expect(() => enginePorts(engines, { prefill: [1, 2, 3], decode: [4] })).toThrow(
    '--prefill-port has 3 ports for 2 P: give 2, or one from which the others count up',
  );
});

const options = (ports: object) => ({
  ...{ host: '127.0.0.1', adminHost: '127.0.0.1', apiKey: null, adminKey: null, adminOnClientPorts: false },
  ports: { prefill: [0], decode: [0], router: 0, admin: 0, ...ports },
});

test('checkServer() refuses a port given twice, one above 65535, and one in use', async () => {
  await expect(checkServer(options({ prefill: [8199], decode: [8200] }), engines)).rejects.toThrow(
    'port 8200 is given to both prefill-1 and decode-0: give each its own port',
  );
  await expect(checkServer(options({ decode: [65534] }), engines)).rejects.toThrow(
    /decode-2 would get port 65536/,
  );
  const taken = createServer();
  const port = await new Promise<number>((resolve) =>
    taken.listen(0, '127.0.0.1', () => resolve((taken.address() as { port: number }).port)),
  );
  await expect(checkServer(options({ decode: [0, 0, port, 0] }), engines)).rejects.toThrow(
    `cannot listen on 127.0.0.1:${port}: another program uses that port`,
  );
  taken.close();
});

test.each([
  [80, 'give a port above 1023'],
  // Windows reserves ranges for virtual machines.
  [8000, 'the system may have reserved that port: give another port'],
])('a port that the system denies is refused with what helps: %i', (port, advice) => {
  const denied = Object.assign(new Error('listen EACCES'), { code: 'EACCES' });
  expect(cannotListen('127.0.0.1', port, denied).message).toBe(
    `cannot listen on 127.0.0.1:${port}: permission denied; ${advice}`,
  );
});

test('an address that this machine lacks may be that of the admin port, as on a host without IPv4', () => {
  const missing = Object.assign(new Error('listen EADDRNOTAVAIL'), { code: 'EADDRNOTAVAIL' });
  expect(cannotListen('127.0.0.1', 0, missing).message).toBe(
    'cannot listen on 127.0.0.1:0: no interface of this machine has that address; give another --host, or --admin-host for the admin port',
  );
});
