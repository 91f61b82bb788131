// `atherops completion`: prints a script that completes commands and options in bash, zsh or fish. It is generated from the commands
// themselves, so that it is complete.
import { Argument, type Command } from "commander";
import { WrongUsage } from "./cli-error.ts";
import type { Console } from "./output.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;
type Shell = (typeof SHELLS)[number];

const EXAMPLES = `
Examples:
  source <(atherops completion bash)                                     in ~/.bashrc
  source <(atherops completion zsh)                                      in ~/.zshrc, after compinit
  atherops completion fish > ~/.config/fish/completions/atherops.fish`;

export function addCompletion(program: Command, console: Console): void {
  program
    .command("completion")
    .description("print a script that completes commands and options in your shell")
    .addArgument(new Argument("<shell>").choices([...SHELLS]))
    .addHelpText("after", EXAMPLES)
    .action((shell: Shell) => void console.world.stdout.write(scriptOf(shell, completions(program))));
}

/** A command, such as `alerts` or `routes add` → the commands and options that may follow. */
export function completions(program: Command): Map<string, string[]> {
  const all = new Map<string, string[]>();
  const add = (command: Command, path: string): void => {
    const commands = command.commands.map((child) => child.name());
    const options = command.options.flatMap(({ long, hidden }) => (long && !hidden ? [long] : []));
    all.set(path, [...commands, ...options, "--help"]);
    for (const child of command.commands) add(child, path === "" ? child.name() : `${path} ${child.name()}`);
  };
  add(program, "");
  return all;
}

function scriptOf(shell: Shell, all: ReadonlyMap<string, readonly string[]>): string {
  const cases = [...all].map(([path, words]) => {
    // Names of commands and options consist of letters and dashes, so nothing has to be quoted.
    if (![path, ...words].every((word) => /^[\w -]*$/.test(word))) throw new WrongUsage(`${path}: cannot be completed`);
    return [path, words.join(" ")] as const;
  });
  switch (shell) {
    case "fish":
      return fishScript(cases);
    case "zsh":
      return `autoload -U +X bashcompinit && bashcompinit\n${bashScript(cases)}`;
    default:
      return bashScript(cases);
  }
}

type Cases = readonly (readonly [path: string, words: string])[];

function bashScript(cases: Cases): string {
  return `_atherops() {
  local word path="" words=""
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in -*) ;; *) case " $(_atherops_words "$path") " in *" $word "*) path="\${path:+$path }$word" ;; esac ;; esac
  done
  words="$(_atherops_words "$path")"
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
_atherops_words() {
  case "$1" in
${cases.map(([path, words]) => `    "${path}") echo "${words}" ;;`).join("\n")}
  esac
}
complete -o default -F _atherops atherops
`;
}

function fishScript(cases: Cases): string {
  const lines = cases.map(([path, words]) => `    case "${path}"\n      echo ${words} | string split " "`);
  return `function __atherops_words
  switch "$argv[1]"
${lines.join("\n")}
  end
end
function __atherops_complete
  set -l path ""
  for word in (commandline -opc)[2..]
    if not string match -q -- "-*" $word; and contains -- $word (__atherops_words "$path")
      set path (string trim "$path $word")
    end
  end
  __atherops_words "$path"
end
complete -c atherops -f -a "(__atherops_complete)"
`;
}
