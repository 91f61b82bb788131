// The oxlint plugin `comments`. Its rule `explained-sleep` requires a comment on each sleep in a test that names what the test waits for,
// because tests should wait for an event or use `eventually`. Its rule `whole` rejects a comment that opens with "Of …", which is incomplete
// without the line below it.
const explainedSleep = {
  create(context) {
    const explained = new Set(context.sourceCode.getAllComments().map(({ loc }) => loc.end.line));
    return {
      CallExpression(node) {
        const [first] = node.arguments;
        const isSleep = node.callee.name === "sleep" || (node.callee.name === "setTimeout" && first?.type === "Identifier");
        const { line } = node.loc.start;
        if (!isSleep || explained.has(line) || explained.has(line - 1)) return;
        context.report({ node, message: "Say in a comment above what passes during this sleep, or wait for an event or `eventually`." });
      },
    };
  },
};

const wholeComments = {
  create(context) {
    return {
      Program() {
        const comments = context.sourceCode.getAllComments();
        const ends = new Set(comments.map(({ loc }) => loc.end.line));
        for (const node of comments) {
          const continues = node.type === "Line" && ends.has(node.loc.start.line - 1);
          if (continues || !/^\*?\s*Of /.test(node.value)) continue;
          context.report({
            node,
            message: "Write a comment that is clear without the line below: it begins with what the thing is, not with “Of”.",
          });
        }
      },
    };
  },
};

// oxlint loads the default export of a plugin.
export default { meta: { name: "comments" }, rules: { "explained-sleep": explainedSleep, whole: wholeComments } };
