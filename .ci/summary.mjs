// Adds up what the test runs wrote: which failed, what was skipped and why, and one closing line.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

const folder = process.argv[2];
/** What was thrown and where, as far as it helps who sees this alone. */
const indented = (message) =>
  message
    .split('\n')
    .filter((line) => !line.includes('node_modules'))
    .slice(0, 12)
    .map((line) => `  ${line}`)
    .join('\n');
const total = { passed: 0, failed: 0, skipped: 0 };
for (const file of readdirSync(folder).filter((name) => name.endsWith('.json'))) {
  const report = JSON.parse(readFileSync(path.join(folder, file), 'utf8'));
  total.passed += report.numPassedTests;
  total.failed +=
    report.numFailedTests +
    report.testResults.filter((r) => r.status === 'failed' && r.assertionResults.length === 0).length;
  total.skipped += report.numPendingTests + report.numTodoTests;
  for (const result of report.testResults) {
    for (const test of result.assertionResults) {
      if (test.status === 'failed') {
        console.log(`failed on ${path.basename(file, '.json')}: ${test.fullName}`);
        for (const message of test.failureMessages) console.log(indented(message));
      }
      if (test.status === 'pending')
        console.log(`skipped on ${path.basename(file, '.json')}: ${test.fullName}`);
    }
  }
}
const skippedNote = path.join(folder, 'skipped');
if (existsSync(skippedNote)) console.log(`skipped: ${readFileSync(skippedNote, 'utf8').trim()}`);
if (total.skipped > 0) console.log(`${total.skipped} skipped`);
console.log(`${total.passed} passed, ${total.failed} failed`);
process.exit(total.failed === 0 && total.passed > 0 ? 0 : 1);
