// Adds up what the test runs wrote: what failed, what was skipped and why, and one closing line.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

const folder = process.argv[2];
/** What was thrown and where, as far as it helps who sees this alone. */
const indented = (message) =>
  message
    .split('\n')
    .filter((line) => !line.includes('node_modules'))
    .slice(0, 12)
    // What Vitest's JSON says of a test that did not end in time.
    .map((line) => `  ${line.replace('STACK_TRACE_ERROR', 'timed out')}`)
    .join('\n');
const read = (name) => JSON.parse(readFileSync(path.join(folder, name), 'utf8'));
const total = { passed: 0, failed: 0, skipped: 0 };

/** Something that failed: `messages` say how. */
const failed = (adapter, what, messages) => {
  total.failed++;
  console.log(`failed on ${adapter}: ${what}`);
  for (const message of messages) console.log(indented(message));
};

for (const name of readdirSync(folder).filter((name) => name.endsWith('.json'))) {
  const adapter = path.basename(name, '.json');
  const report = read(name);
  total.passed += report.numPassedTests;
  total.skipped += report.numPendingTests + report.numTodoTests;
  for (const result of report.testResults) {
    for (const test of result.assertionResults) {
      if (test.status === 'failed') failed(adapter, test.fullName, test.failureMessages);
      if (test.status === 'pending') console.log(`skipped on ${adapter}: ${test.fullName}`);
    }
  }
  const errors = `${adapter}.errors`;
  for (const { where, message } of existsSync(path.join(folder, errors)) ? read(errors) : [])
    failed(adapter, `no test: ${where}`, [message]);
}
const note = (name) =>
  existsSync(path.join(folder, name)) ? readFileSync(path.join(folder, name), 'utf8').trim() : '';
if (note('skipped') !== '') console.log(`skipped: ${note('skipped')}`);
if (note('ended') !== '') {
  console.log(note('ended'));
  // A run that failed though nothing above says so: lint, types, a build.
  if (total.failed === 0) total.failed++;
}
if (total.skipped > 0) console.log(`${total.skipped} skipped`);
console.log(`${total.passed} passed, ${total.failed} failed`);
process.exit(total.failed === 0 && total.passed > 0 ? 0 : 1);
