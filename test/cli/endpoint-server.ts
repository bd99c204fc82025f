/** A server for `bench --endpoint`, and the command against it in a fake world. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { main } from '../../src/cli/app.ts';
import { benchReportSchema } from '../../src/measure/schemas/bench-report.ts';
import { generator } from '../workload/generator.ts';
import { fakeWorld } from './fake.ts';

const spec = generator({ conversations: 2, turns: 4, prefix: 6, input: 5, output: 4 });

export const NO_KEY = '{"error":"no valid key"}';

interface Asked {
  path: string;
  body: Record<string, unknown>;
  headers: IncomingMessage['headers'];
}

let server: Server | null = null;

export function endServer(): void {
  server?.closeAllConnections();
  server?.close();
  server = null;
}

export type Answer = (asked: Asked, response: ServerResponse) => void;

/** A server that a benchmark measures; one at a time. `keyed`: whether it refuses to list its models, too. */
export async function serve(answer: Answer, keyed = false): Promise<{ url: string; asked: Asked[] }> {
  const asked: Asked[] = [];
  server = createServer(async (request, response) => {
    if (request.url === '/v1/models' && keyed) return void response.writeHead(401).end(NO_KEY);
    if (request.url === '/v1/models') {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ object: 'list', data: [{ id: 'served-model', object: 'model' }] }));
      return;
    }
    let text = '';
    for await (const part of request) text += part;
    const one = {
      path: request.url!,
      body: JSON.parse(text) as Record<string, unknown>,
      headers: request.headers,
    };
    asked.push(one);
    answer(one, response);
  });
  return { url: await listening(server), asked };
}

/** The URL of a server that answers nothing. `asked`: called for each request. */
export async function silent(asked: () => void): Promise<string> {
  server = createServer(asked);
  return listening(server);
}

async function listening(started: Server): Promise<string> {
  await new Promise<void>((resolve) => started.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(started.address() as AddressInfo).port}`;
}

/** Streams in vLLM's format and leaves the connection open; the usage chunk has no choices. */
export const unended: Answer = ({ body, path }, response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
  const send = (data: unknown) => response.write(`data: ${JSON.stringify(data)}\n\n`);
  if (path === '/v1/chat/completions') send({ choices: [{ delta: { role: 'assistant', content: '' } }] });
  for (let i = 0; i < (body.max_tokens as number); i++) {
    send({ choices: [path === '/v1/completions' ? { text: ' of' } : { delta: { content: ' of' } }] });
  }
  send({
    choices: [],
    usage: { prompt_tokens: 50, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 32 } },
  });
  response.write('data: [DONE]\n\n');
};

export const streamed: Answer = (asked, response) => {
  unended(asked, response);
  response.end();
};

export const benchWorld = () => fakeWorld({}, { 'gen.json': JSON.stringify(spec) });

export const bench = (url: string, ...options: string[]) => benchIn(benchWorld(), url, ...options);

export async function benchIn(world: ReturnType<typeof fakeWorld>, url: string, ...options: string[]) {
  world.deps.now = () => performance.now();
  const code = await main(
    ['bench', 'gen.json', '--endpoint', url, '--json', 'out.json', ...options],
    world.deps,
  );
  const json = world.files.get('out.json');
  return { world, code, report: json ? benchReportSchema.parse(JSON.parse(json)) : null };
}
