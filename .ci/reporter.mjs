// What fails a run and belongs to no test, which the JSON report leaves out: an unhandled rejection, a process that ended, a
// hook, a file that does not load. It goes to the file that ERRORS_OF_NO_TEST names.
import { writeFileSync } from 'node:fs';

const told = (where, { name, message, stack }) => ({
  where,
  message: stack ?? [name, message].filter(Boolean).join(': '),
});

export default class ErrorsOfNoTest {
  onTestRunEnd(modules, unhandled) {
    const errors = unhandled.map((error) =>
      told([error.type, error.VITEST_TEST_PATH, error.VITEST_TEST_NAME].filter(Boolean).join(', '), error),
    );
    for (const module of modules) {
      for (const error of module.errors()) errors.push(told(module.moduleId, error));
      for (const suite of module.children.allSuites())
        for (const error of suite.errors()) errors.push(told(`${module.moduleId}, ${suite.fullName}`, error));
    }
    writeFileSync(process.env.ERRORS_OF_NO_TEST, JSON.stringify(errors));
  }
}
