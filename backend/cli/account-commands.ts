// `atherops orgs`, `atherops users`, `atherops invitations`, `atherops password`, and `atherops accounts` for operators.
import { collect, LIMIT_HELP, limitsText, toLabelLimits } from "./named-resources.ts";
import type { ApiResponses } from "../client/api.ts";
import { Argument, Option, type Command } from "commander";
import { readPassword, readPasswords } from "./credentials.ts";
import { Problem } from "./cli-error.ts";
import { findOrganisation } from "./organisation-commands.ts";
import { addList, addRemoval, type Console } from "./output.ts";
import type { Row } from "./text-table.ts";

const ROLES = ["viewer", "admin", "operator"];
const USER_COLUMNS = ["email", "role", "user_id", "created_at", "limits"];

type User = ApiResponses["GET /api/users"][number];

export function addAccountCommands(program: Command, console: Console): void {
  addOrgs(program, console);
  addUsers(program, console);
  addInvitations(program, console);
  addOwnPassword(program, console);
  addAccounts(program, console);
}

function addOrgs(program: Command, console: Console): void {
  const orgs = program.command("orgs").description("organisations (tenants); requires the role operator");
  addList(orgs, console, { description: "all organisations", path: "/api/orgs", columns: ["name", "org_id", "created_at"] });
  orgs
    .command("create <name>")
    .description("create an organisation and its first administrator, whose password is read from a prompt or pipe")
    .requiredOption("--admin-email <address>", "the administrator's e-mail address")
    .addHelpText(
      "after",
      "\nExample:\n  openssl rand -base64 18 | tee password | atherops orgs create shop --admin-email admin@shop.example",
    )
    .action(async (name: string, { adminEmail }: { adminEmail: string }) => {
      const password = await readPassword(`Password of ${adminEmail}: `, console.world);
      const created = await console.call<{ org_id: string }>("POST", "/api/orgs", {
        body: { name, admin: { email: adminEmail, password } },
      });
      console.result(created.org_id, `organisation ${name} created; its administrator is ${adminEmail}`, created);
    });
  addDeletion(orgs, console);
  orgs
    .command("add-admin <organisation> <email>")
    .description("add an administrator to any organisation (by name or id); the password is read from a prompt or pipe")
    .action(async (organisation: string, email: string) => {
      const org = await findOrganisation(console, organisation);
      const password = await readPassword(`Password of ${email}: `, console.world);
      const created = await console.call<User>("POST", `/api/orgs/${org.org_id}/admins`, { body: { email, password } });
      console.result(created.user_id, `${created.email} is now an administrator of ${org.name}`, created);
    });
}

function addDeletion(orgs: Command, console: Console): void {
  orgs
    .command("delete <organisation>")
    .description("delete an organisation (by name or id) with all its users, keys and telemetry; this cannot be undone")
    .requiredOption("--confirm <name>", "repeat the organisation's name")
    .addHelpText(
      "after",
      `
To save its data first, one of its users without limits can run: atherops export-telemetry

Example:
  atherops orgs delete shop --confirm shop && atherops orgs deletions`,
    )
    .action(async (organisation: string, { confirm }: { confirm: string }) => {
      const { org_id, name } = await findOrganisation(console, organisation);
      const deletion = await console.call<Row>("DELETE", `/api/orgs/${org_id}`, { query: { name: confirm } });
      console.result(org_id, `organisation ${name} is being deleted: \`atherops orgs deletions\` shows the progress`, deletion);
    });
  orgs
    .command("deletions")
    .description("deleted organisations, their remaining telemetry, and when it was erased")
    .action(async () => {
      const rows = await console.call<Row[]>("GET", "/api/deletions");
      console.print(rows, ["name", "org_id", "requested_at", "requested_by", "found", "erased_at"]);
    });
}

function addUsers(program: Command, console: Console): void {
  const users = program
    .command("users")
    .description("users of your organisation; role viewer: read, admin: also change, operator: also manage organisations");
  addList(users, console, {
    description: "all users",
    path: "/api/users",
    columns: USER_COLUMNS,
    toCells: (row) => ({ ...row, limits: limitsText(row["label_limits"]) }),
  });
  users
    .command("add <email>")
    .description("add a user; the password is read from a prompt or pipe")
    .addOption(new Option("--role <role>", "the user's permissions").choices(ROLES).default("viewer"))
    .option("--limit <label=values>", LIMIT_HELP, collect, [])
    .action(async (email: string, { role, limit }: { role: string; limit: readonly string[] }) => {
      const label_limits = toLabelLimits(limit);
      const password = await readPassword(`Password of ${email}: `, console.world);
      const created = await console.call<User>("POST", "/api/users", {
        body: { email, password, role, ...(label_limits && { label_limits }) },
      });
      console.result(created.user_id, `${created.email} added as ${role}`, created);
    });
  addUserChanges(users, console);
}

function addUserChanges(users: Command, console: Console): void {
  users
    .command("password <user>")
    .alias("passwd")
    .description("set a user's password (by e-mail or id), and end the user's sessions")
    .action(async (user: string) => {
      const { user_id, email } = await findUser(console, user);
      const password = await readPassword(`New password of ${email}: `, console.world);
      await console.call("PUT", `/api/users/${user_id}/password`, { body: { password } });
      console.note(`password of ${email} set`);
    });
  users
    .command("role")
    .description("change a user's role (by e-mail or id)")
    .argument("<user>")
    .addArgument(new Argument("<role>").choices(ROLES))
    .action(async (user: string, role: string) => {
      const { user_id, email } = await findUser(console, user);
      await console.call("PUT", `/api/users/${user_id}/role`, { body: { role } });
      console.note(`${email} now has the role ${role}`);
    });
  users
    .command("limit <user>")
    .description("limit a viewer (by e-mail or id) to values of labels; without --limit, remove the limits")
    .option("--limit <label=values>", LIMIT_HELP, collect, [])
    .addHelpText("after", "\nExample:\n  atherops users limit ana@example.com --limit k8s.namespace.name=shop,web")
    .action(async (user: string, { limit }: { limit: readonly string[] }) => {
      const label_limits = toLabelLimits(limit) ?? null;
      const { user_id, email } = await findUser(console, user);
      await console.call("PUT", `/api/users/${user_id}/label-limits`, { body: { label_limits } });
      console.note(label_limits ? `${email} is limited to ${limitsText(label_limits)}` : `${email} has no limits`);
    });
  users
    .command("remove <user>")
    .description("remove a user (by e-mail or id)")
    .action(async (user: string) => {
      const { user_id, email } = await findUser(console, user);
      await console.call("DELETE", `/api/users/${user_id}`);
      console.note(`${email} removed`);
    });
}

function addInvitations(program: Command, console: Console): void {
  const invitations = program
    .command("invitations")
    .description("links with which people choose a password and join your organisation; requires the role admin");
  const columns = ["email", "role", "created_by", "expires_at", "invitation_id"];
  addList(invitations, console, { description: "invitations that are still valid", path: "/api/invitations", columns });
  invitations
    .command("create <email>")
    .description("invite a person; prints only the link to stdout, which can be used once")
    .addOption(new Option("--role <role>", "the user's permissions").choices(ROLES).default("viewer"))
    .option("--ttl <duration>", "how long the link is valid, such as 12h or 7d; at most 30 days")
    .option("--limit <label=values>", LIMIT_HELP, collect, [])
    .addHelpText("after", "\nExample:\n  atherops invitations create ana@example.com --role admin --ttl 2d")
    .action(async (email: string, { role, ttl, limit }: { role: string; ttl?: string; limit: readonly string[] }) => {
      const label_limits = toLabelLimits(limit);
      const client = console.client();
      const created = await client.call<ApiResponses["POST /api/invitations"]>("POST", "/api/invitations", {
        body: { email, role, ttl, ...(label_limits && { label_limits }) },
      });
      const link = `${client.address}/#/invitation/${created.token}`;
      console.result(link, `${created.email} invited as ${role}, until ${created.expires_at}; the link is not shown again`, {
        ...created,
        link,
      });
    });
  addRemoval(invitations, console, "remove an invitation; its link stops working", (id) => `/api/invitations/${id}`);
}

function addOwnPassword(program: Command, console: Console): void {
  program
    .command("password")
    .alias("passwd")
    .description(
      "change your own password and end your other sessions; reads the current and the new password from prompts or two lines of a pipe",
    )
    .action(async () => {
      const [current, password] = await readPasswords(["Current password: ", "New password: "], console.world);
      await console.call("PUT", "/api/auth/password", { body: { current, password } });
      console.note("password changed; log in again: `atherops login`");
    });
}

function addAccounts(program: Command, console: Console): void {
  const accounts = program.command("accounts").description("accounts of all organisations, by e-mail; requires the role operator");
  const find = async (email: string): Promise<User[]> => await console.call("GET", "/api/accounts", { query: { email } });
  accounts
    .command("find <email>", { isDefault: true })
    .description("find an account by its e-mail address, in any organisation")
    .action(async (email: string) => console.print(await find(email), [...USER_COLUMNS, "org_id"]));
  accounts
    .command("remove <email>")
    .description("remove an account, so that its address can be used again")
    .action(async (email: string) => {
      const [account] = await find(email);
      if (!account) throw new Problem(`account ${email} not found`);
      await console.call("DELETE", `/api/accounts/${account.user_id}`);
      console.note(`${account.email} removed`);
    });
}

async function findUser(console: Console, user: string): Promise<User> {
  const users = await console.call<User[]>("GET", "/api/users");
  const match = users.find(({ user_id, email }) => user_id === user || email === user.toLowerCase());
  if (!match) throw new Problem(`user ${user} not found: \`atherops users\` lists all`);
  return match;
}
