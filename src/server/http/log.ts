/** The server's log: one line per event, as text for people or as JSON. */
import { plural } from '../../measure/format.ts';
import type { RequestRecord } from '../observer.ts';

export interface AccessLine {
  /** 'router', 'admin' or an engine's name. */
  port: string;
  method: string;
  path: string;
  status: number;
  /** Milliseconds until the response headers. */
  ms: number;
  requestId: string;
}

export interface ServerLog {
  access(line: AccessLine): void;
  /** A generation request ended. */
  ended(port: string, record: RequestRecord): void;
  note(message: string): void;
  error(message: string): void;
}

/** A log that also explains decisions. */
export interface ExplainingLog extends ServerLog {
  /** Logs a decision: as `lines` in text format, as one line with `fields` in JSON format. */
  explained(event: 'routing' | 'scaling', fields: object, lines: () => readonly string[]): void;
}

export function createLog(format: 'text' | 'json', write: (line: string) => void): ExplainingLog {
  const json = (level: 'info' | 'error', fields: object) =>
    write(JSON.stringify({ time: new Date().toISOString(), level, ...fields }));
  const out = (level: 'info' | 'error', fields: object, text: () => string) => {
    if (format === 'json') json(level, fields);
    else write(`${new Date().toISOString().slice(11, 23)} ${oneLine(text())}`);
  };
  return {
    access(line) {
      const { port, method, path, status, ms, requestId } = line;
      const fields = { event: 'request', port, method, path, status, ms: round(ms), request_id: requestId };
      out('info', fields, () => `${port} ${method} ${path} ${status} ${round(ms)} ms ${shownId(requestId)}`);
    },
    ended(port, record) {
      const { requestId, reason, prompt, storedTokens, outputTokens, latencyMs, firstTokenMs } = record;
      const pulledTokens = prompt && prompt.pulledTokens - storedTokens;
      const fields = {
        event: 'generated',
        port,
        request_id: requestId,
        reason,
        output_tokens: outputTokens,
        ttft_ms: firstTokenMs && round(firstTokenMs),
        ms: round(latencyMs),
        prompt_tokens: prompt?.promptTokens ?? null,
        pulled_tokens: pulledTokens,
        stored_tokens: prompt && storedTokens,
        hit_tokens: prompt?.localHitTokens ?? null,
      };
      out('info', fields, () => {
        const tokens = prompt
          ? `${plural(prompt.promptTokens, 'prompt token')} (${prompt.localHitTokens} hit, ${pulledTokens} pulled${storedTokens > 0 ? `, ${storedTokens} from the store` : ''}), `
          : '';
        return `${port} ${shownId(requestId)} ended: ${reason}, ${tokens}${outputTokens} generated, ${round(latencyMs)} ms`;
      });
    },
    note: (message) => out('info', { event: 'note', message }, () => message),
    error: (message) => out('error', { event: 'error', message }, () => `error: ${message}`),
    explained(event, fields, lines) {
      if (format === 'json') json('info', { event, ...fields });
      else write(lines().join('\n'));
    },
  };
}

const round = (ms: number): number => Math.round(ms * 10) / 10;

/** An id with spaces would read like further fields of the line. */
const shownId = (id: string): string => (id.includes(' ') ? JSON.stringify(id) : id);

/** Replaces control characters, so that text from a client cannot start a log line or move a terminal's cursor. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is replaced
const oneLine = (text: string): string => text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, '?');
