// The order of test files: those that take minutes begin first, so that none of them runs alone at the end of its stage. Vitest knows
// durations only of earlier runs in the same folder. In a clean clone it would begin with the largest files.
import { relative } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { LONG } from "../test-files.ts";

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rankOf = ({ moduleId }: TestSpecification): number => {
      const rank = LONG.indexOf(relative(this.ctx.config.root, moduleId));
      return rank < 0 ? LONG.length : rank;
    };
    const orderOf = ({ project }: TestSpecification): number => project.config.sequence.groupOrder;
    return (await super.sort(files)).toSorted((a, b) => orderOf(a) - orderOf(b) || rankOf(a) - rankOf(b));
  }
}
