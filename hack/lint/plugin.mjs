// The oxlint plugin `plain-english`. Its rule `words` reports private words in comments, string literals and declared names. Its rule
// `explained-sleep` requires a comment on each sleep in a test that names what the test waits for, because tests should wait for an event or
// use `eventually`. Its rule `whole-comments` rejects a comment that opens with "Of …", which is incomplete without the line below it.
import { privateWords, wordsOfName } from "./words.mjs";

const words = {
  create(context) {
    const report = (text, node) => {
      for (const { word, use } of privateWords(text)) context.report({ node, message: `"${word}" is not plain English here: ${use}.` });
    };
    const reportName = (node) => {
      if (node?.type === "Identifier" || node?.type === "PrivateIdentifier") report(wordsOfName(node.name), node);
    };
    const declared = (node) => reportName(node.id);
    const keyed = (node) => !node.computed && reportName(node.key);
    const called = (node) => {
      reportName(node.id);
      for (const parameter of node.params) reportName(parameter.type === "AssignmentPattern" ? parameter.left : parameter);
    };
    return {
      Program() {
        for (const comment of context.sourceCode.getAllComments()) report(comment.value, comment);
      },
      Literal(node) {
        if (typeof node.value !== "string" || /^(?:Import|Export)/.test(node.parent?.type ?? "")) return;
        report(node.value, node);
      },
      TemplateElement: (node) => report(node.value.raw, node),
      JSXText: (node) => report(node.value, node),
      VariableDeclarator: declared,
      ClassDeclaration: declared,
      TSInterfaceDeclaration: declared,
      TSTypeAliasDeclaration: declared,
      TSPropertySignature: keyed,
      PropertyDefinition: keyed,
      MethodDefinition: keyed,
      FunctionDeclaration: called,
      FunctionExpression: called,
      ArrowFunctionExpression: called,
    };
  },
};

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
export default { meta: { name: "plain-english" }, rules: { words, "explained-sleep": explainedSleep, "whole-comments": wholeComments } };
