# SPDX-License-Identifier: Apache-2.0
"""generate.py ROCMCRASH TEMPLATE OUTDIR: the manual page and the completions of bash, zsh and fish, from what
`rocmcrash --help` and `rocmcrash VERB --help` print out of the option tables."""

import json
import os
import re
import subprocess
import sys

OPTION = re.compile(r"^ +(?:-(?P<short>\w), )?--(?P<long>[\w-]+)(?:=(?P<arg>\S+))? +(?P<help>.+)$")
FILES = {"DIR", "FILE"}


def ask(program, *words):
    """The lines of a --help, each row of a table as one."""
    text = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout
    return re.sub(r"\n {16,}(?=\S)", " ", text).splitlines()


def options(lines):
    return [match.groupdict() for match in map(OPTION.match, lines) if match]


def verb_of(program, line):
    usage, _, text = line.strip().partition("  ")
    name = usage.split()[0]
    table = options(ask(program, name))
    known = {option["long"] for option in table}
    table += [{"short": None, "long": word, "arg": None, "help": f"as in: {usage}"}
              for word in re.findall(r"--([\w-]+)", usage) if word not in known]
    return {"name": name, "usage": usage, "help": text.strip(), "options": table}


def read(program):
    """(version, options, verbs); a verb has its name, usage, help and options."""
    lines = ask(program)
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    listed = lines[lines.index("Verbs:") + 1:]
    return version, options(lines), [verb_of(program, line) for line in listed[:listed.index("")]]


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.M)


def roff_options(table):
    out = []
    for option in table:
        short = f"\\fB\\-{option['short']}\\fR, " if option["short"] else ""
        argument = f"=\\fI{roff(option['arg'])}\\fR" if option["arg"] else ""
        out += [".TP", f"{short}\\fB\\-\\-{roff(option['long'])}\\fR{argument}", roff(option["help"])]
    return out


def variables(program):
    """ROCMCRASH_NAME of each setting, as a list in bold."""
    text = subprocess.run([program, "config", "--json"], capture_output=True, text=True, check=False,
                          env={"ROCMCRASH_SYSROOT": "/nonexistent"}).stdout
    names = [setting["name"].upper().replace("-", "_") for setting in json.loads(text)["settings"]]
    return "\n.TQ\n".join(f".B ROCMCRASH_{name}" for name in names)


def manual(template, version, table, verbs):
    out = []
    for verb in verbs:
        out += [".SS " + roff(verb["usage"]), roff(verb["help"]), *roff_options(verb["options"])]
    return (template.replace("@VERSION@", version).replace("@OPTIONS@", "\n".join(roff_options(table)))
            .replace("@VERBS@", "\n".join(out)))


def words(table):
    found = []
    for option in table:
        found.append(f"--{option['long']}" + ("=" if option["arg"] else ""))
        found += [f"-{option['short']}"] if option["short"] else []
    return " ".join(found)


def bash(table, verbs):
    cases = "\n".join(f"    {verb['name']}) words='{words(verb['options'])}' ;;" for verb in verbs)
    names = " ".join(verb["name"] for verb in verbs)
    return f"""# bash completion of rocmcrash
_rocmcrash() {{
    local words at word=${{COMP_WORDS[COMP_CWORD]}}
    COMPREPLY=()
    for ((at = 1; at < COMP_CWORD; at++)); do
        [ "${{COMP_WORDS[at]}}" = -- ] || continue
        if declare -F _command_offset >/dev/null; then
            _command_offset $((at + 1))
        else
            mapfile -t COMPREPLY < <(compgen -c -- "$word"; compgen -f -- "$word")
        fi
        return
    done
    case ${{COMP_WORDS[1]}} in
{cases}
    *) words='{words(table)} --' ;;
    esac
    if [ "${{word#-}}" = "$word" ] && {{ [ "$COMP_CWORD" = 1 ] || [ "$COMP_CWORD ${{COMP_WORDS[1]}}" = '2 help' ]; }}; then
        words='{names}'
    elif [ "${{word#-}}" = "$word" ]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    [ "${{COMPREPLY[0]}}" = "${{COMPREPLY[0]%=}}" ] || compopt -o nospace 2>/dev/null
}}
complete -o filenames -F _rocmcrash rocmcrash
"""


def quoted(text):
    return text.replace("'", "'\\''")


def zsh_options(table):
    out = []
    for option in table:
        argument = ""
        if option["arg"]:
            argument = f":{option['arg']}:" + ("_files" if option["arg"] in FILES else "")
        text = quoted(option["help"]).replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
        out.append(f"'--{option['long']}{'=' if argument else ''}[{text}]{argument}'")
        if option["short"]:
            out.append(f"'-{option['short']}{'+' if argument else ''}[{text}]{argument}'")
    return " \\\n            ".join(out)


def zsh(table, verbs):
    listed = "\n".join(f"        '{verb['name']}:{quoted(verb['help'])}'" for verb in verbs)
    cases = "\n".join(f"    {verb['name']})\n        _arguments {zsh_options(verb['options'])} '*:file:_files' ;;"
                      for verb in verbs if verb["options"])
    return f"""#compdef rocmcrash
local -a verbs
verbs=(
{listed}
)
local -i dashes=${{words[(I)--]}}
if (( dashes && dashes < CURRENT )); then
    shift $dashes words
    (( CURRENT -= dashes ))
    _normal
elif [[ $words[CURRENT] != -* ]] && (( CURRENT == 2 || CURRENT == 3 && ${{words[(I)help]}} == 2 )); then
    _describe verb verbs
else
    case $words[2] in
{cases}
    -*) _arguments {zsh_options(table)} ;;
    *) _files ;;
    esac
fi
"""


def fish_options(table, condition):
    out = []
    for option in table:
        line = f"complete -c rocmcrash -n '{condition}' -l {option['long']} -d '{quoted(option['help'])}'"
        line += f" -s {option['short']}" if option["short"] else ""
        line += (" -r" + (" -F" if option["arg"] in FILES else " -f")) if option["arg"] else ""
        out.append(line)
    return out


FISH = """# fish completion of rocmcrash
function __rocmcrash_has_command
    contains -- -- (commandline -opc)
end
function __rocmcrash_command
    set -l words (commandline -opc) (commandline -ct)
    set -e words[1..(contains -i -- -- $words)]
    complete -C "$words"
end
complete -c rocmcrash -n __rocmcrash_has_command -f -a '(__rocmcrash_command)'"""


def fish(table, verbs):
    out = [FISH, f"complete -c rocmcrash -n '__fish_seen_subcommand_from help' -f -a '{' '.join(verb['name'] for verb in verbs)}'"]
    out += [f"complete -c rocmcrash -n __fish_use_subcommand -a {verb['name']} -d '{quoted(verb['help'])}'" for verb in verbs]
    out += fish_options(table, "__fish_use_subcommand")
    for verb in verbs:
        out += fish_options(verb["options"], f"__fish_seen_subcommand_from {verb['name']}")
    return "\n".join(out) + "\n"


def main():
    program, template, outdir = sys.argv[1:]
    with open(template, encoding="utf-8") as file:
        text = file.read()
    version, table, verbs = read(program)
    text = text.replace("@VARIABLES@", variables(program))
    made = {"rocmcrash.1": manual(text, version, table, verbs), "rocmcrash.bash": bash(table, verbs),
            "_rocmcrash": zsh(table, verbs), "rocmcrash.fish": fish(table, verbs)}
    os.makedirs(outdir, exist_ok=True)
    for name, content in made.items():
        with open(os.path.join(outdir, name), "w", encoding="utf-8") as file:
            file.write(content)


if __name__ == "__main__":
    main()
