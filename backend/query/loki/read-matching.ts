// What stands between an operator and its right side: bool, on, ignoring, group_left, group_right. Invariant: what an operator does not
// take is refused.
import type { SyntaxNode } from "@lezer/common";
import { isCalculable, isComparison } from "./calculate.ts";
import { wrongQuery } from "./literals.ts";
import type { Matching } from "./syntax.ts";
import { itemsOf, type Tree } from "./tree.ts";

export function readMatching(tree: Tree, modifier: SyntaxNode, operator: string): { returnsBool: boolean; matching: Matching | undefined } {
  const returnsBool = modifier.getChild("Bool") !== null;
  if (returnsBool && !isComparison(operator)) throw wrongQuery(`bool is for comparisons, not for ${operator}`);
  const on = modifier.getChild("OnOrIgnoringModifier");
  if (!on) return { returnsBool, matching: undefined };
  const side = modifier.getChild("GroupLeft") ? "left" : modifier.getChild("GroupRight") ? "right" : undefined;
  if (side && !isCalculable(operator)) throw wrongQuery(`group_${side} is not for ${operator}`);
  const isOn = on.getChild("On") !== null;
  const labels = labelsOf(tree, on.getChild("GroupingLabels"));
  const include = labelsOf(tree, modifier.getChild("GroupingLabels"));
  const both = isOn && include.find((label) => labels.includes(label));
  if (both) throw wrongQuery(`the label ${both} must not occur in on() and group_${side}() at once`);
  return { returnsBool, matching: { on: isOn, labels, group: side && { side, include } } };
}

function labelsOf(tree: Tree, node: SyntaxNode | null): string[] {
  return itemsOf(node?.getChild("GroupingLabelList") ?? null, "GroupingLabelList", "GroupingLabel").map((label) => tree.of(label));
}
