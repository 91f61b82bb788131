// The reference page of LogQL: which template functions exist and which are refused, made from the tables that the parser uses.
import { REFUSED_ACTIONS, REFUSED_FUNCTIONS, INSTEAD_OF_ACTIONS, LANGUAGE_FUNCTIONS } from "../backend/query/loki/template.ts";
import { FUNCTIONS } from "../backend/query/loki/template-functions.ts";

const code = (text: string): string => `\`${text}\``;

export function logqlPage(): string {
  const supported = [...LANGUAGE_FUNCTIONS, ...Object.keys(FUNCTIONS)].toSorted().map(code).join(", ");
  const functions = Object.entries(REFUSED_FUNCTIONS).map(([name, instead]) => `| ${code(name)} | ${instead} |`);
  const actions = REFUSED_ACTIONS.map((word) => `| ${code(`{{${word}}}`)} | ${INSTEAD_OF_ACTIONS} |`);
  return `# LogQL
<!-- Generated from backend/query/loki/{template-functions,template}.ts and hack/logql-reference.ts by \`npm run reference\`; change it there. -->

Try it: \`curl -G -H "Authorization: Bearer $TOKEN" --data-urlencode 'query=sum by (level) (count_over_time({service_name="shop"} | json [5m]))' $URL/query/loki/loki/api/v1/query\`. Routes, labels and bounds: [the contract](../contract.md#query).

## Where a query is evaluated
ClickHouse evaluates what has an exact form in SQL, over any number of records. A sandbox process evaluates the rest record by record, of at most 200,000 records.

| part of a query | in ClickHouse |
|---|---|
| selectors, line filters except pattern filters, label filters that compare texts | always |
| label filters that compare numbers | in range aggregations |
| \`json\` | in range aggregations \`by\` named labels: members of the outermost object, and \`json x="a.b"\` with names alone as its path |
| \`logfmt\` | in range aggregations \`by\` named labels, without flags and without a list of labels |
| \`unwrap\`, with \`duration\` and \`bytes\` | of attributes, and of labels that the stages above read |
| \`drop\`, \`keep\` | names alone, behind the stages above |
| range aggregations | all but \`rate_counter\` |
| \`regexp\`, \`pattern\`, \`unpack\`, \`line_format\`, \`label_format\`, \`decolorize\` | never |

The whole query is evaluated record by record if one record in its range needs it: a line of JSON that is cut, a key that occurs twice, an object whose members would become the same label, a line above 4 KiB, more than 6 labels of the line, or a number such as \`1.50\` whose text is asked for.

## Template functions
\`line_format\` and \`label_format\` take Go's templates with fields, variables, \`{{if}}\` and these functions. Every function whose work is bounded by the length of its arguments is supported:

${supported}

## Refused by name
A query with one of these is answered 400 \`invalid_parameter\`, and the message names it. The list is complete for Loki 3.7; a test compares it.

| in a template | instead |
|---|---|
${[...functions, ...actions].join("\n")}

Outside templates: \`ip()\`, \`approx_topk\`, an \`offset\` behind \`unwrap\`, and label filters without \`and\` between them.
`;
}
