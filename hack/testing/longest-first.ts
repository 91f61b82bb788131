// The order of test files: those that take minutes begin first, so that none of them runs alone at the end of its stage. Vitest knows
// durations only of earlier runs in the same folder. In a clean clone it would begin with the largest files. Files that need a port which
// something else may still have begin last.
import { relative } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { LAST, LONG } from "../test-files.ts";

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rankOf = ({ moduleId }: TestSpecification): number => {
      const file = relative(this.ctx.config.root, moduleId);
      if (LAST.includes(file)) return LONG.length + 1;
      return LONG.includes(file) ? LONG.indexOf(file) : LONG.length;
    };
    const orderOf = ({ project }: TestSpecification): number => project.config.sequence.groupOrder;
    return (await super.sort(files)).toSorted((a, b) => orderOf(a) - orderOf(b) || rankOf(a) - rankOf(b));
  }
}
